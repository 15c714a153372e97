import type { KeyRing } from '@postern/signed-context'
import { SourceReadError } from '../source/source-read-error.ts'
import { SealError, type SecretPlace, openSecret } from './seal.ts'

/** Throws a SourceReadError that names the first secret that fails. */
export function openSecrets(
  ring: KeyRing,
  place: Omit<SecretPlace, 'name'>,
  secrets: readonly { readonly name: string; readonly sealed: string }[],
): Readonly<Record<string, string>> {
  return Object.fromEntries(
    secrets.map(({ name, sealed }) => {
      try {
        return [name, openSecret(ring, { ...place, name }, sealed)]
      } catch (cause) {
        if (!(cause instanceof SealError)) throw cause
        const message = `the connector's secret \`${name}\` cannot be decrypted any more: set it again`
        throw new SourceReadError('secret_unreadable', message, { cause })
      }
    }),
  )
}
