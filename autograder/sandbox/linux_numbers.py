"""System calls by number, on the two machines that are known: what the filter refuses, what it looks at, what we call.

From the kernel's own headers (asm/unistd_64.h, asm-generic/unistd.h). A call is written name:x86-64:aarch64; the dash
stands for one that aarch64 never had.
"""

from __future__ import annotations

import os
import sys
from functools import cache

#: AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64 (linux/audit.h): what the kernel tells a filter about its caller.
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

#: Refused whatever the arguments: nothing that a model does needs one of these.
REFUSED = {
    "file attributes and links": """
        chmod:90:- fchmod:91:52 fchmodat:268:53 fchmodat2:452:452 chown:92:- fchown:93:55 lchown:94:- fchownat:260:54
        link:86:- linkat:265:37 symlink:88:- symlinkat:266:36 mknod:133:- mknodat:259:33 setxattr:188:5 lsetxattr:189:6
        fsetxattr:190:7 removexattr:197:14 lremovexattr:198:15 fremovexattr:199:16 setxattrat:463:463
        removexattrat:466:466 utime:132:- utimes:235:- futimesat:261:- utimensat:280:88 name_to_handle_at:303:264
        open_by_handle_at:304:265 inotify_init:253:- inotify_init1:294:26 fanotify_init:300:262 fanotify_mark:301:263
    """,
    "sockets": """
        socket:41:198 connect:42:203 bind:49:200 listen:50:201 accept:43:202 accept4:288:242 sendmmsg:307:269
    """,
    "programs and other processes": """
        execve:59:221 execveat:322:281 ptrace:101:117 process_vm_readv:310:270 process_vm_writev:311:271
        process_madvise:440:440 process_mrelease:448:448 kcmp:312:272 pidfd_open:434:434 pidfd_getfd:438:438
        pidfd_send_signal:424:424 get_robust_list:274:100 move_pages:279:239 migrate_pages:256:238 setpriority:141:140
        ioprio_set:251:30
    """,
    "memory that outlives or is shared": """
        memfd_create:319:279 memfd_secret:447:447 shmget:29:194 shmat:30:196 shmctl:31:195 shmdt:67:197 msgget:68:186
        msgsnd:69:189 msgrcv:70:188 msgctl:71:187 semget:64:190 semop:65:193 semtimedop:220:192 semctl:66:191
        mq_open:240:180 mq_unlink:241:181 mq_timedsend:242:182 mq_timedreceive:243:183 mq_notify:244:184
        mq_getsetattr:245:185 add_key:248:217 request_key:249:218 keyctl:250:219
    """,
    "wide doors into the kernel": """
        bpf:321:280 perf_event_open:298:241 userfaultfd:323:282 io_uring_setup:425:425 io_uring_enter:426:426
        io_uring_register:427:427 personality:135:92 modify_ldt:154:- uselib:134:-
    """,
    "mounts and namespaces": """
        mount:165:40 umount2:166:39 pivot_root:155:41 chroot:161:51 unshare:272:97 setns:308:268 open_tree:428:428
        open_tree_attr:467:467 move_mount:429:429 fsopen:430:430 fsconfig:431:431 fsmount:432:432 fspick:433:433
        mount_setattr:442:442 statmount:457:457 listmount:458:458 swapon:167:224 swapoff:168:225 quotactl:179:60
        quotactl_fd:443:443
    """,
    "the machine": """
        reboot:169:142 kexec_load:246:104 kexec_file_load:320:294 init_module:175:105 finit_module:313:273
        delete_module:176:106 acct:163:89 settimeofday:164:170 clock_settime:227:112 adjtimex:159:171
        clock_adjtime:305:266 syslog:103:116 iopl:172:- ioperm:173:- vhangup:153:58 sethostname:170:161
        setdomainname:171:162 lookup_dcookie:212:18
    """,
}

#: Refused, or not, by their arguments: see linux_seccomp.
SORTED_OUT = """
    kill:62:129 tkill:200:130 tgkill:234:131 rt_sigqueueinfo:129:138 rt_tgsigqueueinfo:297:240 prlimit64:302:261
    sched_setaffinity:203:122 sched_setparam:142:118 sched_setscheduler:144:119 sched_setattr:314:274 fcntl:72:25
    ioctl:16:29 clone:56:220 clone3:435:435 fork:57:- vfork:58:- socketpair:53:199 sendto:44:206
"""

#: What the sandbox itself calls beside some of the above.
CALLED = """
    prctl:157:167 capset:126:91 seccomp:317:277 landlock_create_ruleset:444:444 landlock_add_rule:445:445
    landlock_restrict_self:446:446
"""


@cache
def machine() -> str:
    """Return "x86_64" or "aarch64", or "" for any other (a 32-bit Python on a 64-bit kernel among them)."""
    name = os.uname().machine if sys.maxsize > 1 << 32 else ""
    return name if name in AUDIT_ARCH else ""


@cache
def numbers(name: str) -> dict[str, int]:
    """Return the number of each call on the machine called `name`; calls that it has not are left out."""
    column = 1 + list(AUDIT_ARCH).index(name)
    entries = [entry.split(":") for text in (*REFUSED.values(), SORTED_OUT, CALLED) for entry in text.split()]
    return {entry[0]: int(entry[column]) for entry in entries if entry[column] != "-"}


def names(text: str) -> list[str]:
    """Return the names in a table such as SORTED_OUT."""
    return [entry.partition(":")[0] for entry in text.split()]
