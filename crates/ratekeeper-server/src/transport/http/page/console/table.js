// A table whose rows stay where they are while their figures change.

import { make, setText } from "./dom.js";

/** How often rows are put in order: a table that moves each second cannot be read. */
const SORT_MS = 10000;

/**
 * `columns`: each has a `title`, a `fill(cell, row)`, and for a sortable table a `sort(row)` (numbers fall, names rise).
 * `id(row)` tells rows apart; `setUp(row, cells)`, if given, is called once for each new row.
 */
export class LiveTable {
  constructor(table, { caption, columns, id, isSortable = false, most = Infinity }) {
    Object.assign(this, { table, columns, id, most });
    this.rows = new Map();
    this.order = [];
    this.sortedAt = -Infinity;
    this.sorting = null;
    this.isFalling = true;
    this.heads = columns.map((column, index) => {
      const head = make("th");
      head.scope = "col";
      if (column.kind) head.className = column.kind;
      if (column.hint) head.title = column.hint;
      if (isSortable && column.sort) {
        const button = make("button.sort", column.title);
        button.type = "button";
        button.addEventListener("click", () => this.sortBy(index));
        head.append(button);
      } else head.append(column.title);
      return head;
    });
    this.body = make("tbody");
    table.replaceChildren(make("caption.unseen", caption), make("thead", make("tr", ...this.heads)), this.body);
  }

  /** Sorts by a column, and the other way round when asked again. */
  sortBy(index) {
    const isName = typeof this.columns[index].sort(this.shown?.[0] ?? {}) === "string";
    this.isFalling = this.sorting === index ? !this.isFalling : !isName;
    this.sorting = index;
    this.heads.forEach((head, at) => {
      if (at === index) head.setAttribute("aria-sort", this.isFalling ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.sortedAt = -Infinity;
    if (this.shown) this.show(this.shown);
  }

  /** Returns true while somebody reads or works in the table: then no row moves. */
  isInUse() {
    return this.body.matches(":hover") || this.body.contains(document.activeElement);
  }

  /** Shows rows: in the order they come in, or sorted. */
  show(rows) {
    this.shown = rows;
    const byId = new Map(rows.map((row) => [this.id(row), row]));
    const now = performance.now();
    const isDue = now - this.sortedAt >= SORT_MS && !(this.isInUse() && this.sortedAt > -Infinity);
    if (isDue) {
      this.sortedAt = now;
      this.order = this.sorted(rows).map(this.id);
    } else {
      const known = new Set(this.order);
      this.order = this.order.filter((id) => byId.has(id));
      this.order.push(...[...byId.keys()].filter((id) => !known.has(id)));
    }
    const lines = this.order.slice(0, this.most).map((id) => this.line(id, byId.get(id)));
    // Moving a line that is in its place would lose the focus in it.
    lines.forEach((line, index) => {
      if (this.body.children[index] !== line) this.body.insertBefore(line, this.body.children[index] ?? null);
    });
    while (this.body.children.length > lines.length) this.body.lastChild.remove();
    for (const id of this.rows.keys()) if (!byId.has(id)) this.rows.delete(id);
  }

  sorted(rows) {
    if (this.sorting === null) return rows;
    const { sort } = this.columns[this.sorting];
    const way = this.isFalling ? -1 : 1;
    const compare = (one, other) => (typeof one === "string" ? one.localeCompare(other) : one - other);
    return [...rows].sort((one, other) => way * compare(sort(one), sort(other)));
  }

  line(id, row) {
    let line = this.rows.get(id);
    if (!line) {
      line = make("tr", ...this.columns.map(({ kind }) => make(kind ? `td.${kind.replaceAll(" ", ".")}` : "td")));
      this.rows.set(id, line);
    }
    this.columns.forEach(({ fill }, index) => {
      const cell = line.children[index];
      const text = fill(cell, row);
      if (text !== undefined) setText(cell, text);
    });
    return line;
  }
}
