/**
 * Returns a Content-Disposition with the file's name (RFC 6266). Other characters than ASCII are `_` for old clients
 * and UTF-8 (RFC 8187) for others.
 */
export function attachmentOf(fileName: string): string {
  // `%` and the characters of RFC 6266, appendix D, are ambiguous.
  const plain = fileName.replaceAll(/[^ -~]|["%/\\]/gu, '_')
  const quoted = `attachment; filename="${plain}"`
  return plain === fileName ? quoted : `${quoted}; filename*=UTF-8''${encoded(fileName)}`
}

/** `value-chars` of RFC 8187, section 3.2.1. `encodeURIComponent` leaves four more characters. */
function encoded(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replaceAll(/['()*]/g, percent)
}

function percent(mark: string): string {
  return `%${mark.charCodeAt(0).toString(16).toUpperCase()}`
}
