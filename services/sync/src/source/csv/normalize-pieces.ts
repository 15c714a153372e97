/** No accepted value is longer. */
const maxHeld = 1024 * 1024

/**
 * Everything from the last ASCII character on waits for the next piece, because ASCII characters never combine with
 * earlier text (UAX #15).
 */
export async function* normalizePieces(pieces: AsyncIterable<string>): AsyncGenerator<string> {
  let held = ''
  for await (const piece of pieces) {
    const end = lastAsciiIn(piece)
    if (end === -1 && held.length + piece.length <= maxHeld) {
      held += piece
      continue
    }
    const text = held + piece
    const cut = end === -1 ? text.length : held.length + end
    held = text.slice(cut)
    if (cut > 0) yield text.slice(0, cut).normalize('NFC')
  }
  if (held !== '') yield held.normalize('NFC')
}

function lastAsciiIn(text: string): number {
  for (let at = text.length - 1; at >= 0; at -= 1) {
    if (text.charCodeAt(at) < 0x80) return at
  }
  return -1
}
