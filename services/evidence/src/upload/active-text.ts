const activeElements: ReadonlySet<string> = new Set([
  'a',
  'b',
  'body',
  'br',
  'div',
  'embed',
  'font',
  'form',
  'frameset',
  'h1',
  'head',
  'iframe',
  'img',
  'link',
  'meta',
  'object',
  'p',
  'script',
  'style',
  'svg',
  'table',
  'title',
])

/** Returns what the text is if a reader could run it (WHATWG MIME Sniffing, section 7.1). */
export function activeText(head: Buffer): string | undefined {
  const text = decode(head)
  if (text.startsWith('#!') && !isAudio(head)) return 'a script'
  const name = firstElement(text)
  if (name === undefined) return undefined
  if (name === 'svg') return 'an SVG image, which can hold scripts'
  if (name === '' || name === 'html') return 'a web page'
  return activeElements.has(name) && !text.startsWith('<?xml') ? 'a web page' : undefined
}

/**
 * Recordings of speech that start like a script: AMR (RFC 4867), EVRC (RFC 3558, 4788, 5188, 6884), SMV (RFC 3558),
 * VMR-WB (RFC 4348), iLBC (RFC 3952), EVS and IVAS (3GPP TS 26.445, 26.253), SILK, and RTP dumps (rtptools).
 */
const audio =
  /^#!(?:AMR(?:-WB)?(?:_MC1\.0)?\n|EVRC(?:-?B|-?WB|-?NW)?\n|SMV\n|VMR-WB(?:_MC1\.0)?\n|iLBC[23]0\n|(?:EVS|IVAS)_MC1\.[01]\n|SILK_V3|rtpplay1\.0 [0-9a-f.:]+\/\d+\n)/

/** A recording has control characters behind its first line; a script has none. */
function isAudio(head: Buffer): boolean {
  const line = audio.exec(head.toString('latin1'))?.[0]
  return line !== undefined && (head.length === line.length || head.subarray(line.length).some(isControl))
}

function isControl(byte: number): boolean {
  return byte < 0x09 || (byte > 0x0d && byte < 0x20)
}

function decode(head: Buffer): string {
  const encoding =
    head[0] === 0xff && head[1] === 0xfe ? 'utf-16le' : head[0] === 0xfe && head[1] === 0xff ? 'utf-16be' : 'utf-8'
  return new TextDecoder(encoding).decode(head)
}

/** Returns the name in lower case, without a prefix. */
function firstElement(text: string): string | undefined {
  let rest = text.trimStart()
  for (;;) {
    if (rest.startsWith('<!--')) rest = textAfter(rest, '-->')
    else if (rest.startsWith('<?')) rest = textAfter(rest, '>')
    else break
    if (rest === '') return ''
    rest = rest.trimStart()
  }
  const doctype = /^<!doctype\s+(?:[a-z0-9_-]+:)?(?<name>[a-z0-9_-]+)/i.exec(rest)
  const element = doctype ?? /^<(?:[a-z0-9_-]+:)?(?<name>[a-z0-9_-]+)[\s/>]/i.exec(rest)
  return element?.groups?.['name']?.toLowerCase()
}

function textAfter(text: string, end: string): string {
  const at = text.indexOf(end)
  return at === -1 ? '' : text.slice(at + end.length)
}
