import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { extname, join, sep } from 'node:path'
import { gzipSync } from 'node:zlib'

export interface Asset {
  readonly bytes: Buffer
  /** Undefined if compression does not help. */
  readonly gzip: Buffer | undefined
  readonly type: string
  readonly isHashed: boolean
}

export interface BuiltPages {
  readonly assets: ReadonlyMap<string, Asset>
  index(nonce: string): string
}

const types: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.ico': 'image/x-icon',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.webmanifest': 'application/manifest+json',
  '.webp': 'image/webp',
  '.woff2': 'font/woff2',
}

const compressible = /^(?:text\/|application\/|image\/svg)/

/** Undefined if Vite's output is missing. */
export function readBuiltPages(folder: string, basePath: string): BuiltPages | undefined {
  const indexPath = join(folder, 'index.html')
  if (!existsSync(indexPath)) return undefined
  const assets = new Map<string, Asset>()
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const type = types[extname(entry.name)]
    if (!entry.isFile() || type === undefined) continue
    const path = join(entry.parentPath, entry.name).slice(folder.length).split(sep).join('/')
    const bytes = readFileSync(join(entry.parentPath, entry.name))
    const gzip = compressible.test(type) ? gzipSync(bytes, { level: 9 }) : undefined
    const isHashed = path.startsWith('/assets/')
    assets.set(path, {
      bytes,
      gzip: gzip !== undefined && gzip.length < bytes.length ? gzip : undefined,
      type,
      isHashed,
    })
  }
  const parts = splitAtNonces(prefixLinks(basePath, readFileSync(indexPath, 'utf8')))
  return { assets, index: (nonce) => parts.join(nonce) }
}

function prefixLinks(basePath: string, html: string): string {
  const prefixed = html.replaceAll(/(?<= (?:src|href)=")\.\//g, `${basePath}/`)
  return basePath === '' ? prefixed : prefixed.replace('<head>', `<head><meta name="base-path" content="${basePath}">`)
}

/** Set by vite.config.ts. */
const placeholder = '__CSP_NONCE__'
const tagWithoutNonce = /<(script|style|link)(?=[\s>])(?![^>]*\bnonce=)/g

function splitAtNonces(html: string): string[] {
  const marked = html.replace(tagWithoutNonce, `<$1 nonce="${placeholder}"`)
  // Vite's loader reads the nonce for later scripts from this tag.
  const hasMeta = /<meta[^>]*property="csp-nonce"/.test(marked)
  const complete = hasMeta
    ? marked
    : marked.replace(/<head>/, `<head><meta property="csp-nonce" nonce="${placeholder}">`)
  return complete.split(placeholder)
}
