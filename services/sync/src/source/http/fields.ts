import { z } from 'zod'

/** One line of text. */
export const line = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .regex(/^[^\p{Cc}]*$/u, { message: 'must be one line' })

/** Where an HTTP source is. Plain http is for addresses that the platform has listed as its own; that shows when connecting. */
export const urlSchema = z
  .string()
  .max(2000)
  .refine(isHttpUrl, { message: 'must be an https URL without a user, a password or a fragment' })

/** Certificates (PEM) that are trusted in place of the system's. Public, hence no secret. */
export const caSchema = z
  .string()
  .max(65_536)
  .refine((text) => text.includes('-----BEGIN CERTIFICATE-----') && !text.includes('PRIVATE KEY'), {
    message: 'must be certificates in PEM, without a key',
  })

function isHttpUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password, hash } = new URL(text)
  return (protocol === 'https:' || protocol === 'http:') && username === '' && password === '' && hash === ''
}
