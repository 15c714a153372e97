/**
 * The value of Content-Disposition under which a client keeps a file (RFC 6266). What is not plain ASCII is said twice:
 * for clients of before with `_` in its place, and in UTF-8 (RFC 8187), which goes before.
 */
export function attachmentOf(fileName: string): string {
  // `%` and what RFC 6266 appendix D warns of are read in more than one way.
  const plain = fileName.replaceAll(/[^ -~]|["%/\\]/gu, '_')
  const quoted = `attachment; filename="${plain}"`
  return plain === fileName ? quoted : `${quoted}; filename*=UTF-8''${encoded(fileName)}`
}

/** The `value-chars` of RFC 8187 §3.2.1: `encodeURIComponent` leaves four marks more as they are. */
function encoded(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replaceAll(/['()*]/g, percent)
}

function percent(mark: string): string {
  return `%${mark.charCodeAt(0).toString(16).toUpperCase()}`
}
