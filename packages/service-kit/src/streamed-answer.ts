import type { Readable } from 'node:stream'

export class StreamedAnswer {
  readonly mediaType: string
  readonly content: Readable

  constructor(mediaType: string, content: Readable) {
    this.mediaType = mediaType
    this.content = content
  }
}
