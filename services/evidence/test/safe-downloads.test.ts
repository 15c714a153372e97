/**
 * @promise Data: Browsers never run an evidence file, even if the file is valid in two formats.
 */

import { createServer } from 'node:http'
import { once } from 'node:events'
import { receiptSchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { person } from './people.ts'
import { startEvidence, upload, uploader } from './support.ts'

// Files with two formats at once. The first bytes do not always show the format, so safety depends on how a file is
// served.
let service: Awaited<ReturnType<typeof startEvidence>>
beforeAll(async () => (service = await startEvidence()))
afterAll(async () => await service.close())

const script = '<script>alert(document.domain)</script>'
const html = `<!doctype html><html><body>${script}</body></html>`
/** One stored file called a.js, as ZIP has it: readers look for its end, wherever it begins. */
const zip = Buffer.from(
  '504b0304140000000000000000000000000000000000000000000400000061' +
    '2e6a73504b01021400140000000000000000000000000000000000000000000400000000000000000000000000000000' +
    '00612e6a73504b050600000000010001003200000022000000' +
    '0000',
  'hex',
)

interface Polyglot {
  readonly name: string
  readonly declared: string
  readonly bytes: Buffer
}

const polyglots: readonly (readonly [what: string, file: Polyglot])[] = [
  [
    'a PDF that is HTML',
    { name: 'a.pdf', declared: 'application/pdf', bytes: Buffer.from(`%PDF-1.7\n${html}\n%%EOF`) },
  ],
  [
    'a GIF that is a script',
    { name: 'a.gif', declared: 'image/gif', bytes: Buffer.from('GIF89a=0/*\0\0\0\0*/;alert(document.domain)//') },
  ],
  [
    'a GIF with HTML in its comment',
    { name: 'a.gif', declared: 'image/gif', bytes: Buffer.from(`GIF89a\0\0\0\0!\xfe${html}\0;`, 'latin1') },
  ],
  [
    'a PDF that is a ZIP archive',
    { name: 'a.pdf', declared: 'application/pdf', bytes: Buffer.concat([Buffer.from('%PDF-1.7\n%%EOF\n'), zip]) },
  ],
  [
    'a JPEG with HTML behind its head',
    { name: 'a.jpg', declared: 'image/jpeg', bytes: Buffer.from(`\xff\xd8\xff\xfe\x00\xff${html}\xff\xd9`, 'latin1') },
  ],
  [
    'HTML behind the bytes that are looked at',
    { name: 'a.txt', declared: 'text/plain', bytes: Buffer.from(`${' '.repeat(5000)}${html}`) },
  ],
  ['a table with HTML in it', { name: 'a.csv', declared: 'text/csv', bytes: Buffer.from(`user,note\nann,${html}\n`) }],
  [
    'a script that declares itself to be text',
    { name: 'a.txt', declared: 'text/plain', bytes: Buffer.from('alert(document.domain)') },
  ],
  [
    'XML that its style sheet makes HTML of',
    {
      name: 'a.xml',
      declared: 'application/xml',
      bytes: Buffer.from(`<?xml version="1.0"?><?xml-stylesheet href="x"?><x>${script}</x>`),
    },
  ],
  [
    'XML with elements of XHTML',
    {
      name: 'a.xml',
      declared: 'application/xml',
      bytes: Buffer.from(
        `<?xml version="1.0"?><x xmlns:h="http://www.w3.org/1999/xhtml"><h:script>alert(1)</h:script></x>`,
      ),
    },
  ],
]

type Headers = Readonly<Record<string, string | undefined>>

/** What a browser would do with an answer, in what matters here (WHATWG: Fetch, HTML, MIME Sniffing). */
function dangers(headers: Headers, bytes: Buffer): string[] {
  const type = (headers['content-type'] ?? '').split(';', 1)[0]?.trim() ?? ''
  const mayGuess = headers['x-content-type-options'] !== 'nosniff'
  const isSaved = headers['content-disposition']?.startsWith('attachment') === true
  const policy = headers['content-security-policy'] ?? ''
  const isLocked = /(?:^|;) *sandbox *(?:;|$)/.test(policy) && policy.includes("default-src 'none'")
  const isMarkup =
    /(?:html|xml)$/.test(type) || (mayGuess && (type === '' || type === 'text/plain') && bytes.includes('<html'))
  return [
    ...(isMarkup && !isSaved ? ['opened as a page'] : []),
    ...(isMarkup && !isLocked ? ['runs as a page where it is shown in a frame'] : []),
    // Without nosniff, a browser runs anything that a page loads as a script, except images, sound, films and tables.
    ...(mayGuess && !/^(?:image|audio|video)\/|^text\/csv$/.test(type) ? ['runs as a script of another page'] : []),
    ...(!isSaved ? ['opened instead of kept'] : []),
    ...(!isLocked ? ['not locked in'] : []),
  ]
}

describe('a file of two types at once', () => {
  test.each(polyglots)(
    '%s is kept as what it was declared, and handed out so that no browser runs it',
    async (_what, { name, declared, bytes }) => {
      const sender = uploader()
      const sent = await upload(service.caller, sender, { body: bytes, headers: { 'content-type': declared } }, name)
      expect(sent.status, sent.text).toBe(201)
      const auditor = person(sender, 'auditor')
      const { id } = receiptSchema.parse(sent.json)
      const { json } = await service.caller.call(auditor, 'GET', `/api/v1/evidence-files/${id}`)
      expect(json).toMatchObject({ content_type: declared, file_name: name })
      const answer = await service.caller.call(auditor, 'GET', `/api/v1/evidence-files/${id}/content`)
      expect(answer.status).toBe(200)
      expect(answer.headers).toMatchObject({
        'content-type': 'application/octet-stream',
        'content-disposition': `attachment; filename="${name}"`,
        'content-length': String(bytes.length),
      })
      expect(dangers(answer.headers, bytes)).toEqual([])
    },
  )

  test('is rejected if the inspected bytes can run', async () => {
    for (const bytes of [html, `\n<!-- %PDF-1.7 -->${html}`, `#!/bin/sh\n%PDF-1.7`]) {
      const sent = await upload(
        service.caller,
        uploader(),
        { body: bytes, headers: { 'content-type': 'application/pdf' } },
        'a.pdf',
      )
      expect(sent.status, bytes).toBe(415)
    }
  })

  test('control: a server that sends the same bytes with their declared type endangers the reader', async () => {
    const server = createServer((request, response) => {
      const file = polyglots[Number(request.url?.slice(1))]?.[1]
      response.writeHead(200, { 'content-type': file?.declared ?? '' }).end(file?.bytes)
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address()
    const port = typeof address === 'object' ? address?.port : 0
    const seen = new Set<string>()
    for (const [at, [what, { bytes }]] of polyglots.entries()) {
      const answer = await fetch(`http://127.0.0.1:${port}/${at}`)
      const found = dangers(Object.fromEntries(answer.headers), bytes)
      expect(found, what).toContain('opened instead of kept')
      for (const danger of found) seen.add(danger)
      await answer.arrayBuffer()
    }
    expect(seen.size).toBe(5)
    server.closeAllConnections()
    server.close()
  })
})
