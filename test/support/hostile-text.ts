import { Script, createContext } from 'node:vm'
import fc from 'fast-check'
import type { Pattern } from './patterns.ts'

/** The length of test texts: as long as a header can be. */
const length = 16_000
/** A linear pattern needs a hundredth of this for such a text. */
const limitMs = 50

const characters = [...'aA0zf_-.:;,=/\\"\'<>()[]{}@%+*~#&?!| \t\n\r\u0000\u00e9\u{1f600}']

/** Returns texts that make a backtracking pattern slow: many matching parts and then a mismatch. */
export function hostileTexts({ source, flags }: Pattern): Set<string> {
  const pumps = new Set(characters.filter((one) => one.trim() === '' || source.includes(one) || /[aA0z]/.test(one)))
  for (const run of source.match(/[\w ,;:=<>"'@/-]{2,}/g) ?? []) pumps.add(run)
  try {
    const matching = fc.stringMatching(new RegExp(source, flags.replaceAll(/[gy]/g, '')), { maxLength: 40 })
    for (const text of fc.sample(matching, { numRuns: 6, seed: 1 })) {
      pumps.add(text)
      pumps.add(text.slice(0, -1))
      pumps.add(text.slice(1))
    }
  } catch {
    // The pattern contains constructs that cannot be inverted, such as look-behinds.
  }
  const texts = new Set<string>()
  for (const pump of pumps) {
    if (pump === '') continue
    const many = pump.repeat(Math.ceil(length / pump.length))
    for (const text of [`${many}\u0000`, `\u0000${many}\u0000\n`]) texts.add(text)
  }
  return texts
}

/** Only unbounded repetitions can become slow. */
export const isUnbounded = ({ source }: Pattern): boolean => /[*+]|\{\d+,\}/.test(source)

/** Returns an abbreviated text that the pattern takes too long to match, or undefined. */
export function findSlowText(pattern: Pattern): string | undefined {
  if (!isUnbounded(pattern)) return undefined
  const texts = [...hostileTexts(pattern)]
  // All texts at once first, because that is usually fast and time limits are expensive.
  if (timeOf(pattern, texts) < limitMs) return undefined
  // Again, because compilation or garbage collection may have slowed the first run.
  const isSlow = (text: string): boolean => {
    const first = timeOf(pattern, [text])
    return first === Infinity || (first > limitMs && [2, 3].every(() => timeOf(pattern, [text]) > limitMs))
  }
  const slow = texts.find(isSlow)
  return slow === undefined ? undefined : JSON.stringify(slow.slice(0, 24))
}

const context = createContext({})
const run = new Script('{ const pattern = new RegExp(source, flags); for (const text of texts) text.search(pattern) }')

/** The wall-clock time after which a pattern is aborted. */
const giveUpMs = 1500

/** Returns the thread's processor time in milliseconds; Infinity if it was aborted. */
function timeOf({ source, flags }: Pattern, texts: readonly string[]): number {
  Object.assign(context, { source, flags, texts })
  for (;;) {
    const before = process.threadCpuUsage()
    let isWhole = true
    try {
      run.runInContext(context, { timeout: giveUpMs })
    } catch {
      isWhole = false
    }
    const { user, system } = process.threadCpuUsage(before)
    const spentMs = (user + system) / 1000
    if (isWhole) return spentMs
    // Aborted without processor time: the machine was busy.
    if (spentMs > giveUpMs / 4) return Infinity
  }
}
