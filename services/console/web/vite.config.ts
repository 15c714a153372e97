import { fileURLToPath } from 'node:url'
import optimizeLocales from '@react-aria/optimize-locales-plugin'
import type { routeTable } from '@postern/contracts'
import { type Plugin, defineConfig, runnerImport } from 'vite'

const root = fileURLToPath(new URL('.', import.meta.url))
const conditions = ['@postern/source', 'module', 'browser', 'development|production']

/**
 * `virtual:routes`: what the console tells of the routes, read from the contracts when the console is built. The schemas
 * stay behind: they would double what a browser has to load, and they compile code, which the content policy forbids.
 */
function routesModule(): Plugin {
  const id = '\0virtual:routes'
  return {
    name: 'postern-routes',
    resolveId: (source) => (source === 'virtual:routes' ? id : undefined),
    load: async (source) => {
      if (source !== id) return undefined
      const { module } = await runnerImport<{ routeTable: typeof routeTable }>('@postern/contracts', {
        root,
        configFile: false,
        // It runs in Node, where the conditions of the pages do not count.
        resolve: { conditions },
        ssr: { resolve: { conditions, externalConditions: conditions } },
        environments: { inline: { resolve: { conditions, externalConditions: conditions } } },
      })
      const routes = module.routeTable.map(({ id: name, method, path, summary, tag, access }) => {
        return { id: name, method, path, summary, tag, access }
      })
      return `export const routes = ${JSON.stringify(routes)}`
    },
  }
}

export default defineConfig({
  root,
  resolve: { conditions },
  plugins: [routesModule(), { ...optimizeLocales.vite({ locales: ['en-US'] }), enforce: 'pre' }],
  // The server puts a fresh nonce in its place with every answer.
  html: { cspNonce: '__CSP_NONCE__' },
  build: {
    outDir: 'dist',
    emptyOutDir: true,
    target: 'es2023',
    // A data: URL would need a wider content policy.
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1000,
  },
  server: { host: '127.0.0.1', proxy: { '/auth': 'http://127.0.0.1:8090', '/api': 'http://127.0.0.1:8090' } },
})
