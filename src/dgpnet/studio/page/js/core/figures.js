/** Numbers for people, and the arithmetic of the small plots. */

const WHOLE = new Intl.NumberFormat("en");

/** @param {number} number 12,345 */
export const whole = (number) => WHOLE.format(number);

/** @param {number} share in [0, 1] */
export function percent(share) {
  const value = 100 * share;
  if (value > 0 && value < 0.1) return "< 0.1 %";
  return `${value.toFixed(value < 10 && value > 0 ? 1 : 0)} %`;
}

/** @param {number} pixels an area, short: 950 px, 12.3 kpx, 1.2 Mpx */
export function area(pixels) {
  if (pixels < 1000) return `${pixels} px`;
  if (pixels < 1e6) return `${(pixels / 1e3).toFixed(pixels < 1e4 ? 1 : 0)} kpx`;
  return `${(pixels / 1e6).toFixed(pixels < 1e7 ? 1 : 0)} Mpx`;
}

/** @param {number} seconds 0.42 s, 12 s, 3 min, 2 h */
export function duration(seconds) {
  if (seconds < 10) return `${seconds.toFixed(seconds < 1 ? 2 : 1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

/** How certain a score in [0, 1] is, in three steps, as in the report. @returns {"low" | "middle" | "high"} */
export function grade(score) {
  return score < 0.5 ? "low" : score < 0.75 ? "middle" : "high";
}

/**
 * How many values fall into each of `bins` equal steps of [0, most].
 * @param {number[]} values @param {number} bins @param {number} most
 */
export function histogram(values, bins, most) {
  const counts = new Array(bins).fill(0);
  for (const value of values) counts[Math.min(bins - 1, Math.max(0, Math.floor((value / most) * bins)))]++;
  return counts;
}
