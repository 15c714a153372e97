import { Script, createContext } from 'node:vm'
import fc from 'fast-check'
import type { Pattern } from './patterns.ts'

/** How long a text is that a pattern is tried on: as long as a header may be. */
const length = 16_000
/** A pattern that reads such a text once takes a hundredth of this; one that reads it again from each place, more. */
const limitMs = 50

const characters = [...'aA0zf_-.:;,=/\\"\'<>()[]{}@%+*~#&?!| \t\n\r\u0000\u00e9\u{1f600}']

/** Texts that make a pattern look again and again, if anything does: what it likes to read, many times, and then not. */
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
    // It holds what cannot be turned round, such as a look-behind.
  }
  const texts = new Set<string>()
  for (const pump of pumps) {
    if (pump === '') continue
    const many = pump.repeat(Math.ceil(length / pump.length))
    for (const text of [`${many}\u0000`, `\u0000${many}\u0000\n`]) texts.add(text)
  }
  return texts
}

/** Only a repetition without an upper bound can come upon ever more of a long text. */
export const isUnbounded = ({ source }: Pattern): boolean => /[*+]|\{\d+,\}/.test(source)

/** Gives a text, shortened, on which the pattern takes more time than reading it once could; undefined when there is none. */
export function findSlowText(pattern: Pattern): string | undefined {
  if (!isUnbounded(pattern)) return undefined
  const texts = [...hostileTexts(pattern)]
  // All at once first: nearly always that is quick, and a limit of time is dear to set.
  if (timeOf(pattern, texts) < limitMs) return undefined
  // Again, since the first time may be that of the compiler or the garbage collector.
  const isSlow = (text: string): boolean => {
    const first = timeOf(pattern, [text])
    return first === Infinity || (first > limitMs && [2, 3].every(() => timeOf(pattern, [text]) > limitMs))
  }
  const slow = texts.find(isSlow)
  return slow === undefined ? undefined : JSON.stringify(slow.slice(0, 24))
}

const context = createContext({})
const run = new Script('{ const pattern = new RegExp(source, flags); for (const text of texts) text.search(pattern) }')

/** Time of day, after which a pattern is given up. */
const giveUpMs = 1500

/** Processor time of this thread in milliseconds, for what others do on the machine does not count; Infinity beyond all measure. */
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
    // Given up without having had the processor: the machine was busy with something else.
    if (spentMs > giveUpMs / 4) return Infinity
  }
}
