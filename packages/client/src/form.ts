interface FormFile {
  readonly content: Uint8Array<ArrayBuffer> | Blob
  readonly fileName: string
  readonly contentType: string
}

/** Builds a form (RFC 7578) as one Blob: every attempt sends the same bytes, and files stay on disk. */
export function formOf(
  metadata: Readonly<Record<string, unknown>>,
  files: readonly FormFile[],
): { readonly body: Blob; readonly contentType: string } {
  const boundary = `postern-${crypto.randomUUID()}`
  const head = (disposition: string, type: string): string =>
    `--${boundary}\r\nContent-Disposition: form-data; ${disposition}\r\nContent-Type: ${type}\r\n\r\n`
  const parts: FormPart[] = [head('name="metadata"', 'application/json'), JSON.stringify(metadata), '\r\n']
  for (const { content, fileName, contentType } of files) {
    if (/[^\u0020-\u007e]/.test(contentType)) throw new TypeError('contentType must be a media type')
    parts.push(head(`name="file"; filename="${escapeName(fileName)}"`, contentType), content, '\r\n')
  }
  parts.push(`--${boundary}--\r\n`)
  return { body: new Blob(parts), contentType: `multipart/form-data; boundary=${boundary}` }
}

type FormPart = string | Uint8Array<ArrayBuffer> | Blob

/** RFC 9110 §5.6.4. A line break must not end the field. */
function escapeName(name: string): string {
  return name.replaceAll(/["\\]/g, String.raw`\$&`).replaceAll(/[\r\n]/g, '_')
}
