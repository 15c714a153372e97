import { problem } from '@postern/service-kit'

/**
 * Media types that no table of text has. All others are read: tables come as `text/csv`, as bytes, as Excel's, as the form that curl says
 * where nothing is said, and without any.
 */
const ofNoTable = new RegExp(
  [
    '^(?:audio|font|image|message|model|multipart|video)/',
    '[+](?:json|xml|zip)$',
    '^application/(?:x-)?(?:json|jsonl|ndjson|xml|pdf|zip|zip-compressed|gzip|bzip2|7z-compressed|rar-compressed|tar)$',
    '^application/vnd[.](?:openxmlformats-officedocument|oasis[.]opendocument)[.]',
  ].join('|'),
)

/** Refuses what is sent as something that cannot be a table, before any of it is read. */
export function assertMayBeTable(contentType: string | undefined): void {
  const type = contentType?.split(';', 1)[0]?.trim().toLowerCase() ?? ''
  if (!ofNoTable.test(type)) return
  const what = type.startsWith('multipart/') ? 'A form is not taken' : 'A table of text (CSV) is read, and nothing else'
  throw problem('unsupported_media_type', {
    detail: `${what}: send the file itself as the body, as text/csv (curl --data-binary @file.csv).`,
  })
}
