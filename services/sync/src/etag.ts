import { digestOf } from './digest.ts'

/** Contains the version, which edits increment, and a digest, because other work changes the response too. */
export function etagOf(resource: { readonly id: string; readonly version: number }): string {
  return `"${resource.id}.${resource.version}.${digestOf(resource)}"`
}

const taggedResource = /^"(?<configuration>[0-9a-f-]{36}\.\d+)\.[^"]*"$/

/** The part of an ETag that edits are checked against: work that ends meanwhile does not conflict. */
export function configurationOf(etag: string): string | undefined {
  return taggedResource.exec(etag)?.groups?.['configuration']
}
