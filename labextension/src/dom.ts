/** Elements with text as text: names are the user's, and no markup. */

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className = '',
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  node.className = className;
  node.append(...children);
  return node;
}

/** Writes only what changes: a write costs a layout. */
export function setText(node: Node, text: string): void {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}

export function setAttribute(node: Element, name: string, value: string): void {
  if (node.getAttribute(name) !== value) {
    node.setAttribute(name, value);
  }
}

export function show(node: HTMLElement, shown: boolean): void {
  if (node.hidden === shown) {
    node.hidden = !shown;
  }
}

/** As many children as items; those that stay keep their place and the focus in them. */
export function fill<T>(
  parent: HTMLElement,
  items: readonly T[],
  make: (item: T) => HTMLElement,
  write: (node: HTMLElement, item: T) => void
): void {
  while (parent.children.length > items.length) {
    parent.lastElementChild?.remove();
  }
  items.forEach((item, index) => {
    const node = (parent.children[index] as HTMLElement) ?? parent.appendChild(make(item));
    write(node, item);
  });
}
