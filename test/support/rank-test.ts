/**
 * How far two samples are apart by the ranks of their values (Mann and Whitney, 1947), in standard deviations of what
 * chance makes of samples of one distribution: positive when the first tends to be larger. Outliers weigh no more than
 * any other value, so that it can be used for times.
 */
export function rankDistance(first: readonly number[], second: readonly number[]): number {
  const all = [
    ...first.map((value) => ({ value, isFirst: true })),
    ...second.map((value) => ({ value, isFirst: false })),
  ]
  all.sort((one, other) => one.value - other.value)
  let ranks = 0
  for (let from = 0; from < all.length;) {
    let to = from
    while (to < all.length && all[to]?.value === all[from]?.value) to += 1
    // Equal values share the mean of their ranks.
    const mean = (from + 1 + to) / 2
    ranks += mean * all.slice(from, to).filter(({ isFirst }) => isFirst).length
    from = to
  }
  const pairs = first.length * second.length
  const larger = ranks - (first.length * (first.length + 1)) / 2
  return (larger - pairs / 2) / Math.sqrt((pairs * (first.length + second.length + 1)) / 12)
}
