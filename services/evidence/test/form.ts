/** One part of a multipart/form-data body. Without `fileName` it is a field. */
export interface FormPart {
  readonly name: string
  readonly content: string | Buffer
  readonly fileName?: string
  readonly contentType?: string
  /** The head of the part, if it differs from the default. */
  readonly head?: string | Buffer
}

export const file = (fileName: string, content: string | Buffer, contentType = 'text/csv'): FormPart => ({
  name: 'file',
  fileName,
  content,
  contentType,
})

export const metadata = (value: unknown): FormPart => ({ name: 'metadata', content: JSON.stringify(value) })

interface Form {
  readonly body: Buffer
  readonly headers: { 'content-type': string }
}

export const form = (...parts: readonly FormPart[]): Form => formWith('a-boundary-of-the-tests', ...parts)

export function formWith(boundary: string, ...parts: readonly FormPart[]): Form {
  const pieces = parts.flatMap(({ name, content, fileName, contentType, head }) => {
    const named = fileName === undefined ? '' : `; filename="${fileName}"`
    const typed = contentType === undefined ? '' : `Content-Type: ${contentType}\r\n`
    return [
      Buffer.from(`--${boundary}\r\n`),
      Buffer.from(head ?? `Content-Disposition: form-data; name="${name}"${named}\r\n${typed}`),
      Buffer.from('\r\n'),
      Buffer.from(content),
      Buffer.from('\r\n'),
    ]
  })
  return {
    body: Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)]),
    headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
  }
}
