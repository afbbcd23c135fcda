
// Sorts a table by the column whose button was pressed. Without script the table is there, in class order.
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const order = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      heads.forEach((other) => other.hasAttribute("aria-sort") && other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", order);
      const key = (row) => row.cells[column].dataset.key ?? row.cells[column].textContent.trim();
      const sign = order === "ascending" ? 1 : -1;
      const body = table.tBodies[0];
      const rows = [...body.rows].sort((a, b) => {
        const [left, right] = [key(a), key(b)];
        const numbers = [parseFloat(left), parseFloat(right)];
        if (head.dataset.numeric !== undefined) return sign * ((numbers[0] || 0) - (numbers[1] || 0));
        return sign * left.localeCompare(right, undefined, { numeric: true });
      });
      body.append(...rows);
    });
  });
}
