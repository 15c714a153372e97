/** Returns the Content-Disposition of a download (RFC 6266, RFC 8187). */
export function attachmentOf(fileName: string): string {
  // `%` and the characters of RFC 6266, appendix D, are ambiguous.
  const plain = fileName.replaceAll(/[^ -~]|["%/\\]/gu, '_')
  const quoted = `attachment; filename="${plain}"`
  return plain === fileName ? quoted : `${quoted}; filename*=UTF-8''${encoded(fileName)}`
}

/** `value-chars` of RFC 8187, section 3.2.1. */
function encoded(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replaceAll(/['()*]/g, percent)
}

function percent(mark: string): string {
  return `%${mark.charCodeAt(0).toString(16).toUpperCase()}`
}
