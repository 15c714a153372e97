import type { Readable } from 'node:stream'

/** An answer that is streamed, in another media type than the JSON of the contract. */
export class StreamedAnswer {
  readonly mediaType: string
  readonly content: Readable

  constructor(mediaType: string, content: Readable) {
    this.mediaType = mediaType
    this.content = content
  }
}
