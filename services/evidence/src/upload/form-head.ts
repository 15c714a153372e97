/** What a head may have of the limits that the parser is given: beyond them it reads no further, and says nothing. */
export const headLimits = { headerPairs: 20, headerSize: 8192 } as const

const saidOnce: ReadonlySet<string> = new Set(['content-disposition', 'content-type', 'content-transfer-encoding'])
// Nothing here can be matched in two ways: who sends it decides how long it is.
const letters = String.raw`-!#$%&'*+.^_\`|~\w`
const headerLine = new RegExp(String.raw`^([${letters}]+):([\t\x20-\x7e\x80-\xff]*)$`)
/** Without quotes bytes beyond ASCII are let be, as they are sent. */
const parameter = String.raw`;[ \t]*([${letters}]+)=("(?:[^"\\]|\\.)*"|[${letters}\x80-\xff]+)[ \t]*`
const disposition = new RegExp(String.raw`^form-data[ \t]*(?:${parameter})*;?$`, 'i')
const parameters = new RegExp(parameter, 'g')
/** Such a part is passed over by the parser, and who has sent it is told. */
const otherDisposition = new RegExp(String.raw`^(?!form-data[ \t]*(?:;|$))[${letters}]+[ \t]*(?:;|$)`, 'i')
/** RFC 8187 §3.2, of UTF-8. */
const extended = /^utf-8'[\w-]*'[^'"]*$/i

/**
 * What is wrong with the head of a part of a form (RFC 7578 §4.2, a byte a character), in words for who has sent it; undefined where nothing is. What
 * a reader may take in two ways is wrong: what stands before us may have judged a file by one name, and we would keep it by
 * another. `filename*` may stand beside `filename`, as .NET sends it. Whether it is form-data, and has a name, is not asked.
 */
export function faultOfHead(head: string): string | undefined {
  const lines = head
    .replaceAll(/\r\n(?=[ \t])/g, '')
    .split('\r\n')
    .filter((line) => line !== '')
  if (head.length >= headLimits.headerSize || lines.length >= headLimits.headerPairs) {
    return `The head of a part may have ${headLimits.headerPairs - 1} lines, and less than ${headLimits.headerSize} bytes.`
  }
  const said = new Set<string>()
  for (const line of lines) {
    const [, name = '', value = ''] = headerLine.exec(line) ?? []
    const header = name.toLowerCase()
    if (header === '') return 'Each line in the head of a part is a name, a colon and a value.'
    if (said.has(header)) return `A part may say its ${name} once.`
    if (saidOnce.has(header)) said.add(header)
    const fault = header === 'content-disposition' ? faultOfDisposition(value.trim()) : undefined
    if (fault !== undefined) return fault
  }
  return undefined
}

function faultOfDisposition(value: string): string | undefined {
  if (otherDisposition.test(value)) return undefined
  if (!disposition.test(value)) return 'Write Content-Disposition as form-data; name="…"; filename="…".'
  const said = new Set<string>()
  for (const [, given = '', text = ''] of value.matchAll(parameters)) {
    const name = given.toLowerCase()
    // The parser takes name* for name. Browsers and older readers do not agree on where a text with \" ends.
    const isPlain = name === 'filename*' || !name.includes('*')
    if (!isPlain || said.has(name)) return `A part may say its ${name.replace(/\*.*/, '')} once.`
    // The parser takes what comes last; who knows filename* is to take it, wherever it stands (RFC 6266 §4.3).
    if (name === 'filename' && said.has('filename*')) return 'Write filename before filename*.'
    if (name === 'filename*' && !extended.test(text)) return "Write filename* as utf-8''…."
    if (text.includes('\\"') && text.includes(';')) return 'Write a quote in a file name as %22.'
    said.add(name)
  }
  return undefined
}
