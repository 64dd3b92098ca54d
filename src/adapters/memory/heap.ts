/** A binary heap: the item with the lowest key comes first. A change takes O(log n) time. */
export class Heap<T> {
  readonly #nodes: { readonly key: number; readonly item: T }[] = [];

  push(key: number, item: T): void {
    const nodes = this.#nodes;
    nodes.push({ key, item });
    for (let at = nodes.length - 1; at > 0; ) {
      const parent = (at - 1) >> 1;
      if (!this.#swapIfLower(at, parent)) return;
      at = parent;
    }
  }

  /** The item with the lowest key, which stays; undefined if the heap is empty. */
  peek(): { readonly key: number; readonly item: T } | undefined {
    return this.#nodes[0];
  }

  /** Removes the item with the lowest key; undefined if the heap is empty. */
  pop(): T | undefined {
    const nodes = this.#nodes;
    const [first] = nodes;
    const last = nodes.pop();
    if (first === undefined || last === undefined || nodes.length === 0) return first?.item;
    nodes[0] = last;
    for (let at = 0; ; ) {
      const left = 2 * at + 1;
      const child = this.#key(left + 1) < this.#key(left) ? left + 1 : left;
      if (!this.#swapIfLower(child, at)) return first.item;
      at = child;
    }
  }

  #key(at: number): number {
    return this.#nodes[at]?.key ?? Number.POSITIVE_INFINITY;
  }

  #swapIfLower(at: number, than: number): boolean {
    const [low, high] = [this.#nodes[at], this.#nodes[than]];
    if (low === undefined || high === undefined || low.key >= high.key) return false;
    this.#nodes[at] = high;
    this.#nodes[than] = low;
    return true;
  }
}
