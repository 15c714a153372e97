import sax from 'sax'
import { SourceReadError } from '../source-read-error.ts'

/** Names have no prefix. Text may arrive in parts. */
export interface XmlHandlers {
  readonly open: (name: string, attributes: Readonly<Record<string, string>>) => void
  readonly text?: (text: string) => void
  readonly close?: (name: string) => void
}

const maxDepth = 100
const maxAttributes = 200

/** Yields after each chunk, so that the caller controls how fast the part is read. Rejects document type declarations. */
export async function* parseXml(bytes: AsyncIterable<Uint8Array>, handlers: XmlHandlers): AsyncGenerator<void> {
  let failure: Error | undefined
  let depth = 0
  let attributes: Record<string, string> = {}
  let attributeCount = 0
  const fail = (error: Error): void => {
    failure ??= error
  }
  const { text = ignore, close = ignore } = handlers
  const parser = Object.assign(sax.parser(true), {
    onerror: fail,
    ondoctype: () => fail(new Error('the part declares a document type')),
    onopentagstart: () => {
      attributes = {}
      attributeCount = 0
    },
    onattribute: ({ name, value }: { readonly name: string; readonly value: string }) => {
      attributes[localName(name)] = value
      attributeCount += 1
      if (attributeCount > maxAttributes) throw new Error('an element has too many attributes')
    },
    onopentag: ({ name }: { readonly name: string }) => {
      depth += 1
      if (depth > maxDepth) throw new Error('the part is nested too deep')
      handlers.open(localName(name), attributes)
    },
    ontext: text,
    oncdata: text,
    onclosetag: (name: string) => {
      depth -= 1
      close(localName(name))
    },
  })
  const decoder = new TextDecoder()
  const write = (chunk: string | null): void => {
    try {
      if (chunk === null) parser.close()
      else parser.write(chunk)
    } catch (error) {
      if (error instanceof SourceReadError) throw error
      fail(error instanceof Error ? error : new Error('the part is not XML', { cause: error }))
    }
    if (failure !== undefined) throw brokenWorkbookError(failure)
  }
  for await (const chunk of bytes) {
    write(decoder.decode(chunk, { stream: true }))
    yield
  }
  write(decoder.decode())
  write(null)
}

export async function readXml(bytes: AsyncIterable<Uint8Array>, handlers: XmlHandlers): Promise<void> {
  const chunks = parseXml(bytes, handlers)
  while ((await chunks.next()).done !== true);
}

export function brokenWorkbookError(cause: unknown): SourceReadError {
  const message = 'the workbook is damaged: open it in a spreadsheet and save it again'
  return new SourceReadError('workbook_broken', message, { cause })
}

function ignore(): void {
  // Most parts need only elements.
}

function localName(name: string): string {
  const colon = name.indexOf(':')
  return colon === -1 ? name : name.slice(colon + 1)
}
