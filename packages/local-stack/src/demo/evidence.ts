import { Buffer } from 'node:buffer'
import { crc32, deflateSync } from 'node:zlib'
import type { Calendar } from './calendar.ts'
import { type Random, createRandom, memberOf } from './random.ts'
import type { Scenario } from './scenario.ts'

export interface DemoFile {
  readonly collection: number
  readonly fileName: string
  readonly contentType: string
  readonly testProcedures: readonly string[]
  readonly evidenceDate: string
  readonly sourceSystem: string
  readonly method: 'manual' | 'api_export' | 'screenshot' | 'query' | 'report' | 'log'
  readonly revises: string | null
  readonly size: number
}

interface EvidenceOptions {
  readonly seed: string
  readonly calendar: Calendar
  /** Default: different sizes, up to 6 MiB. */
  readonly fileBytes?: number
}

/** Files with the same number have the same bytes in every tenant, so that a leak is visible. */
export function makeEvidence({ slug, counts }: Scenario, { seed, calendar, fileBytes }: EvidenceOptions): DemoFile[] {
  const random = createRandom(`${seed} ${slug} evidence`)
  const { files, reused, revisions } = counts.evidence
  const procedure = (): string => `TP-${String(random.int(1, counts.testProcedures)).padStart(4, '0')}`
  const collections = Array.from({ length: Math.ceil((files - revisions) / perCollection) }, (_none, index) => {
    const isReused = index * perCollection < reused
    return {
      collection: index,
      testProcedures: [...new Set([procedure(), ...(isReused ? [procedure(), procedure()] : [])])],
      evidenceDate: calendar.date(random.int(1, 365)),
      ...random.pick(origins),
    }
  })
  const originals = Array.from({ length: files - revisions }, (_none, index): DemoFile => {
    const { kind, size } = shapeOf(index, seed)
    const { name, extension, contentType } = kind
    return {
      ...memberOf(collections, Math.floor(index / perCollection)),
      fileName: `${String(index + 1).padStart(4, '0')}-${name}.${extension}`,
      contentType,
      revises: null,
      size: fileBytes ?? size,
    }
  })
  const revised = originals.slice(-revisions).map((file): DemoFile => ({
    ...file,
    fileName: file.fileName.replace(/\.(\w+)$/, '-v2.$1'),
    revises: file.fileName,
  }))
  return [...originals, ...revised]
}

const perCollection = 5

const origins = [
  { sourceSystem: 'Identity management', method: 'api_export' },
  { sourceSystem: 'GRC portal', method: 'report' },
  { sourceSystem: 'Core system', method: 'screenshot' },
  { sourceSystem: 'Document store', method: 'manual' },
] as const

const kinds = [
  { name: 'access-review', extension: 'csv', contentType: 'text/csv' },
  { name: 'test-report', extension: 'pdf', contentType: 'application/pdf' },
  { name: 'settings', extension: 'png', contentType: 'image/png' },
  { name: 'approval', extension: 'eml', contentType: 'message/rfc822' },
] as const
type Kind = (typeof kinds)[number]

const kibibyte = 1024

function shapeOf(index: number, seed: string): { kind: Kind; size: number } {
  const random = createRandom(`${seed} file ${index}`)
  const kind = memberOf(kinds, random.int(0, kinds.length - 1))
  if (index % 400 === 7) return { kind, size: 6 * 1024 * kibibyte }
  if (index % 60 === 11) return { kind, size: random.int(200, 900) * kibibyte }
  return { kind, size: random.int(1, 40) * kibibyte }
}

export function bytesOf({ fileName, size }: Pick<DemoFile, 'fileName' | 'size'>): Buffer {
  const random = createRandom(`bytes of ${fileName}`)
  switch (fileName.slice(fileName.lastIndexOf('.') + 1)) {
    case 'csv':
      return Buffer.from(`account,owner,role,confirmed\r\n${repeatLines(size, random, csvLine)}`)
    case 'eml':
      return Buffer.from(
        `From: reviewer@people.example\r\nTo: audit@people.example\r\nSubject: Approval ${fileName}\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n${repeatLines(size, random, mailLine)}`,
      )
    case 'pdf':
      return pdfOf(repeatLines(size, random, reportLine))
    default:
      return pngOf(size, random)
  }
}

function repeatLines(size: number, random: Random, line: (random: Random, number: number) => string): string {
  const some = Array.from({ length: Math.min(64, Math.ceil(size / 40)) }, (_none, index) => line(random, index)).join(
    '',
  )
  return some.repeat(Math.max(1, Math.round(size / some.length)))
}

function csvLine(random: Random, number: number): string {
  return `acc${String(number).padStart(4, '0')},P-${String(random.int(1, 1900)).padStart(5, '0')},${random.pick(['user', 'admin', 'batch'])},${random.pick(['yes', 'no'])}\r\n`
}

function mailLine(random: Random): string {
  return `${random.pick(['Approved as requested', 'Please see the list below', 'Confirmed for this quarter'])}, item ${random.int(1, 999)}.\r\n`
}

function reportLine(random: Random, number: number): string {
  return `Sample ${number}: item ${random.int(1000, 9999)} ${random.pick(['passed', 'passed', 'exception'])}\n`
}

/** A valid document of one page (ISO 32000-1) with the text as a comment. */
function pdfOf(text: string): Buffer {
  const parts = [
    '%PDF-1.4\n',
    '1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n',
    '2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count 1 >>\nendobj\n',
    '3 0 obj\n<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] >>\nendobj\n',
    `%${text.replaceAll('\n', '\n%')}\n`,
  ]
  const offsets = [1, 2, 3].map((index) => parts.slice(0, index).join('').length)
  const body = parts.join('')
  const entries = offsets.map((offset) => `${String(offset).padStart(10, '0')} 00000 n \n`).join('')
  return Buffer.from(
    `${body}xref\n0 4\n0000000000 65535 f \n${entries}trailer\n<< /Size 4 /Root 1 0 R >>\nstartxref\n${body.length}\n%%EOF\n`,
    'latin1',
  )
}

/** Grey noise (RFC 2083), which does not compress. */
function pngOf(size: number, random: Random): Buffer {
  const width = 256
  const height = Math.max(1, Math.round(size / width))
  const row = Buffer.from(Array.from({ length: width + 1 }, (_none, at) => (at === 0 ? 0 : random.int(0, 255))))
  const pixels = Buffer.concat(
    Array.from({ length: height }, (_none, at) => {
      const copy = Buffer.from(row)
      copy.writeUInt32LE(at, 1)
      return copy
    }),
  )
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([8, 0, 0, 0, 0], 8)
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(pixels, { level: 0 })),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

function chunk(type: string, data: Buffer): Buffer {
  const content = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(data.length)
  sum.writeUInt32BE(crc32(content))
  return Buffer.concat([length, content, sum])
}
