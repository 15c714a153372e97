import type { Readable } from 'node:stream'

/** A streamed answer in another media type than JSON. */
export class StreamedAnswer {
  readonly mediaType: string
  readonly content: Readable

  constructor(mediaType: string, content: Readable) {
    this.mediaType = mediaType
    this.content = content
  }
}
