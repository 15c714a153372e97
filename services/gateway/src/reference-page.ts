import { createHash } from 'node:crypto'

/** What the reference shows. Nothing that it offers may leave this installation or outlive the page. */
const configuration = {
  url: 'api/v1/openapi.json',
  theme: 'default',
  layout: 'modern',
  defaultOpenFirstTag: false,
  hideClientButton: true,
  persistAuth: false,
  showDeveloperTools: 'never',
  telemetry: false,
  withDefaultFonts: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
  hiddenClients: {
    c: true,
    clojure: true,
    csharp: true,
    dart: true,
    fsharp: true,
    go: true,
    http: true,
    java: true,
    julia: true,
    js: ['axios', 'jquery', 'ofetch', 'xhr'],
    kotlin: true,
    node: true,
    objc: true,
    ocaml: true,
    php: true,
    powershell: ['webrequest'],
    python: ['aiohttp', 'httpx_async', 'httpx_sync', 'python3'],
    r: true,
    ruby: true,
    rust: true,
    shell: ['httpie', 'wget'],
    swift: true,
  },
  authentication: {
    preferredSecurityScheme: 'keyAuth',
    securitySchemes: { keyAuth: { value: 'ApiKey ' } },
  },
} as const

const start = `Scalar.createApiReference('#app', ${JSON.stringify(configuration)})`

const style =
  ':root{color-scheme:light dark;--scalar-custom-header-height:40px}' +
  'header{position:sticky;top:0;z-index:10;height:40px;padding:0 24px;font:15px/40px system-ui,sans-serif;background:Canvas}'

/** The page at /docs. It needs the script beside it, and sends requests only to the API that serves it. */
export const referencePage = Buffer.from(
  `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
    `<title>Postern API</title><style>${style}</style></head><body>` +
    `<header><a href="docs/guides">Guides</a></header><div id="app"></div>` +
    `<noscript>This page needs JavaScript. The same without it: <a href="api/v1/openapi.json">OpenAPI 3.1</a>.</noscript>` +
    `<script src="docs/reference.js"></script><script>${start}</script></body></html>`,
)

export const referencePolicy = [
  "default-src 'none'",
  `script-src 'self' 'sha256-${createHash('sha256').update(start).digest('base64')}'`,
  // The script adds styles as it draws.
  "style-src 'unsafe-inline'",
  'img-src data:',
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')
