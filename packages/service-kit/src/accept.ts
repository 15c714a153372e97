/** Returns the offered media type that the client prefers (RFC 9110, section 12.5.1). Undefined if it accepts none. */
export function negotiate(accept: string | undefined, offered: readonly string[]): string | undefined {
  // HOT PATH: the usual values.
  if (accept === undefined || accept === '*/*' || accept === offered[0]) return offered[0]
  if (accept.trim() === '') return offered[0]
  const ranges = accept.split(',').map(parseRange)
  let best: { readonly mediaType: string; readonly quality: number } | undefined
  for (const mediaType of offered) {
    const quality = qualityOf(mediaType, ranges)
    if (quality > (best?.quality ?? 0)) best = { mediaType, quality }
  }
  return best?.mediaType
}

/**
 * Returns the offered content coding that the client prefers, the first among equals (RFC 9110, section 12.5.3).
 * Undefined if it accepts none or sent no header.
 */
export function chooseCoding<Coding extends string>(
  header: string | undefined,
  offered: readonly Coding[],
): Coding | undefined {
  const codings = (header ?? '').split(',').map(parseRange)
  let best: { readonly coding: Coding; readonly quality: number } | undefined
  for (const coding of offered) {
    const named = codings.find(({ range }) => range === coding) ?? codings.find(({ range }) => range === '*')
    const quality = named?.quality ?? 0
    if (quality > (best?.quality ?? 0)) best = { coding, quality }
  }
  return best?.coding
}

export function acceptsGzip(header: string | undefined): boolean {
  return chooseCoding(header, ['gzip']) !== undefined
}

interface MediaRange {
  readonly range: string
  readonly quality: number
}

function parseRange(text: string): MediaRange {
  const [range = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase())
  const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2)
  const quality = weight === undefined ? 1 : Number(weight)
  return { range, quality: quality >= 0 && quality <= 1 ? quality : 0 }
}

/** The most specific matching range decides. */
function qualityOf(mediaType: string, ranges: readonly MediaRange[]): number {
  for (const wanted of [mediaType, `${mediaType.split('/', 1)[0]}/*`, '*/*']) {
    const found = ranges.find(({ range }) => range === wanted)
    if (found !== undefined) return found.quality
  }
  return 0
}
