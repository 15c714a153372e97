import { workbookMediaType } from '@postern/contracts'
import { problem } from '@postern/service-kit'

/** All other types are accepted: clients send `text/csv`, bytes, Excel's type, curl's default form type, or none. */
const notATable = new RegExp(
  [
    '^(?:audio|font|image|message|model|multipart|video)/',
    '[+](?:json|xml|zip)$',
    '^application/(?:x-)?(?:json|jsonl|ndjson|xml|pdf|zip|zip-compressed|gzip|bzip2|7z-compressed|rar-compressed|tar)$',
    '^application/vnd[.](?:openxmlformats-officedocument|oasis[.]opendocument)[.]',
  ].join('|'),
)

export function assertMayBeTable(contentType: string | undefined): void {
  const type = contentType?.split(';', 1)[0]?.trim().toLowerCase() ?? ''
  if (type === workbookMediaType || !notATable.test(type)) return
  const what = type.startsWith('multipart/') ? 'A form is not accepted' : 'Only a table (CSV or .xlsx) is accepted'
  throw problem('unsupported_media_type', {
    detail: `${what}. Send the file itself as the body, as text/csv (curl --data-binary @file.csv).`,
  })
}
