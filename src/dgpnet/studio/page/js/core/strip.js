/**
 * The arithmetic of a strip that shows thousands of photographs with a few dozen elements.
 */

/**
 * The cells to have for this scroll position: [first, last), some more than can be seen.
 * @param {number} scroll @param {number} room width of what can be seen @param {number} cell width of a cell
 * @param {number} total @param {number} [spare] cells beyond each edge
 */
export function windowOf(scroll, room, cell, total, spare = 4) {
  const first = Math.max(0, Math.floor(scroll / cell) - spare);
  const last = Math.min(total, Math.ceil((scroll + room) / cell) + spare);
  return { first, last: Math.max(first, last) };
}

/** The pages of `size` that hold cells [first, last). @returns {number[]} */
export function pagesOf(first, last, size) {
  const pages = [];
  for (let page = Math.floor(first / size); page * size < last; page++) pages.push(page);
  return pages;
}

/**
 * The scroll position at which a cell can be seen, as near as possible to the present one; with a neighbour beside it.
 * @param {number} index @param {number} scroll @param {number} room @param {number} cell
 */
export function scrollTo(index, scroll, room, cell) {
  const margin = Math.min(cell, Math.max(0, (room - cell) / 2));
  const left = index * cell - margin;
  const right = (index + 1) * cell + margin - room;
  return Math.max(0, Math.min(left, Math.max(right, scroll)));
}
