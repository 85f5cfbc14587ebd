// Makes elements without parsing markup: texts from the server are always text, never HTML. The page's
// Content-Security-Policy forbids inline scripts, inline styles, and markup assigned from script.

const SVG = "http://www.w3.org/2000/svg";

export function byId(id) {
  return document.getElementById(id);
}

/** An HTML element. An attribute whose value is a function is a listener; one that is false or null is omitted. */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** Changes a text only if it differs, so that live regions do not speak and selections stay. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (value === null || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, String(value));
  }
}

/** Makes the table's rows those of `keys`, in order. Rows that stay keep their nodes, and so the focus. */
export function keyedRows(body, rows, keys, make) {
  for (const [key, row] of rows) {
    if (!keys.includes(key)) {
      row.node.remove();
      rows.delete(key);
    }
  }
  keys.forEach((key, position) => {
    if (!rows.has(key)) rows.set(key, make(key));
    const node = rows.get(key).node;
    if (body.children[position] !== node) body.insertBefore(node, body.children[position] ?? null);
  });
}
