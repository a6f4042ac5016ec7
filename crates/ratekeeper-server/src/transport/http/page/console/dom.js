// Elements. Keys and names are only ever set as text: nothing of them is markup.

export const byId = (id) => document.getElementById(id);

/** Makes an element: its name and classes as in a selector, such as `span.cut.dim`; attributes, if any; what is in it. */
export const make = (selector, ...children) => {
  const [name, ...classes] = selector.split(".");
  const made = document.createElement(name);
  if (classes.length) made.className = classes.join(" ");
  const [first] = children;
  if (first && typeof first === "object" && !(first instanceof Node)) {
    children.shift();
    for (const [attribute, value] of Object.entries(first)) made.setAttribute(attribute, value);
  }
  made.append(...children);
  return made;
};

/** Sets a text, if it is another: what stays the same costs nothing to lay out. */
export const setText = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};

/** Sets a text that may be too long for its place; the whole of it is in the title. */
export const setCut = (node, text) => {
  setText(node, text);
  if (node.title !== text) node.title = text;
};

/** Makes a button that submits nothing. */
export const makeButton = (selector, text, onClick, title = "") => {
  const made = make(selector, { type: "button", title }, text);
  made.addEventListener("click", onClick);
  return made;
};

/** One thing, or several of them. */
export const several = (count, one, many) => `${count.toLocaleString("en-US")} ${count === 1 ? one : many}`;
