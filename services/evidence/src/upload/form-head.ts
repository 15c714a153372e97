/** Beyond these limits, the parser silently ignores a head. */
export const headLimits = { headerPairs: 20, headerSize: 8192 } as const

const uniqueHeaders: ReadonlySet<string> = new Set(['content-disposition', 'content-type', 'content-transfer-encoding'])
// Unambiguous patterns only, because the sender controls the length.
const letters = String.raw`-!#$%&'*+.^_\`|~\w`
const headerLine = new RegExp(String.raw`^([${letters}]+):([\t\x20-\x7e\x80-\xff]*)$`)
/** Unquoted bytes beyond ASCII are accepted. */
const parameter = String.raw`;[ \t]*([${letters}]+)=("(?:[^"\\]|\\.)*"|[${letters}\x80-\xff]+)[ \t]*`
const disposition = new RegExp(String.raw`^form-data[ \t]*(?:${parameter})*;?$`, 'i')
const parameters = new RegExp(parameter, 'g')
/** A part that the parser skips silently. The reader of the form reports it. */
const otherDisposition = new RegExp(String.raw`^(?!form-data[ \t]*(?:;|$))[${letters}]+[ \t]*(?:;|$)`, 'i')
/** RFC 8187 §3.2, of UTF-8. */
const extended = /^utf-8'[\w-]*'[^'"]*$/i

/**
 * Returns what is wrong with the head of a part (RFC 7578, section 4.2). Rejects what readers interpret differently,
 * because a proxy may have checked a different name.
 */
export function faultOfHead(head: string): string | undefined {
  const lines = linesOf(head)
  if (head.length >= headLimits.headerSize || lines.length >= headLimits.headerPairs) {
    return `The head of a part may have at most ${headLimits.headerPairs - 1} lines and less than ${headLimits.headerSize} bytes.`
  }
  const seen = new Set<string>()
  for (const line of lines) {
    const [, name = '', value = ''] = headerLine.exec(line) ?? []
    const header = name.toLowerCase()
    if (header === '') return 'Each line in the head of a part must be a name, a colon and a value.'
    if (seen.has(header)) return `A part may have only one ${name}.`
    if (uniqueHeaders.has(header)) seen.add(header)
    const fault = header === 'content-disposition' ? faultOfDisposition(value.trim()) : undefined
    if (fault !== undefined) return fault
  }
  return undefined
}

/** Returns the decoded `filename*` of a head without faults. The parser ignores it behind a quoted `filename`. */
export function findExtendedName(head: string): string | undefined {
  const line = linesOf(head).find((text) => /^content-disposition:/i.test(text)) ?? ''
  const [, , text] = [...line.matchAll(parameters)].find(([, name]) => name?.toLowerCase() === 'filename*') ?? []
  if (text === undefined) return undefined
  const bytes = text
    .slice(text.lastIndexOf("'") + 1)
    .replaceAll(/%([\da-f]{2})/gi, (_escape, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(bytes, 'latin1').toString('utf8')
}

function linesOf(head: string): string[] {
  return head
    .replaceAll(/\r\n(?=[ \t])/g, '')
    .split('\r\n')
    .filter((line) => line !== '')
}

function faultOfDisposition(value: string): string | undefined {
  if (otherDisposition.test(value)) return undefined
  if (!disposition.test(value)) return 'Write Content-Disposition as form-data; name="…"; filename="…".'
  const seen = new Set<string>()
  for (const [, given = '', text = ''] of value.matchAll(parameters)) {
    const name = given.toLowerCase()
    // The parser treats name* as name, and readers disagree on the end of text with \".
    const isPlain = name === 'filename*' || !name.includes('*')
    if (!isPlain || seen.has(name)) return `A part may have only one ${name.replace(/\*.*/, '')}.`
    // Readers must prefer filename* (RFC 6266, section 4.3), but some take the last one.
    if (name === 'filename' && seen.has('filename*')) return 'Write filename before filename*.'
    if (name === 'filename*' && !extended.test(text)) return "Write filename* as utf-8''…."
    if (text.includes('\\"') && text.includes(';')) return 'Write a quote in a file name as %22.'
    seen.add(name)
  }
  return undefined
}
