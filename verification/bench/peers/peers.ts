import { existsSync } from 'node:fs'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { findFreePort } from '@postern/local-stack/testing'
import { type Peer, findProgram, loadCore, measuredCore, startPeer } from '../processes.ts'

const answer = JSON.stringify({ padding: 'x'.repeat(1024 - '{"padding":""}'.length) })

const script = (name: string): readonly string[] => [join(import.meta.dirname, name)]

export async function startUpstream(folder: string): Promise<Peer> {
  const port = await findFreePort()
  const nginx = findProgram('nginx')
  if (nginx !== undefined) {
    return await startNginx(folder, {
      name: 'upstream',
      program: nginx,
      port,
      core: loadCore,
      http: `server { listen 127.0.0.1:${port}; default_type application/json; location / { return 200 '${answer}'; } }`,
    })
  }
  return await startPeer({
    name: 'upstream',
    command: process.execPath,
    args: [...script('upstream.ts'), String(port), answer],
    port,
    core: loadCore,
  })
}

export async function startHttpProxy(name: string, upstream: Peer): Promise<Peer> {
  const port = await findFreePort()
  return await startPeer({
    name,
    command: process.execPath,
    args: [...script('http-proxy.ts'), String(port), upstream.url],
    port,
    core: measuredCore,
  })
}

export async function startKeyedHttpProxy(upstream: Peer, key: string): Promise<Peer> {
  const port = await findFreePort()
  return await startPeer({
    name: '@fastify/http-proxy, keys in hooks',
    command: process.execPath,
    args: [...script('keyed-http-proxy.ts'), String(port), upstream.url, key],
    port,
    core: measuredCore,
  })
}

export async function startLeanestProxy(upstream: Peer): Promise<Peer> {
  const port = await findFreePort()
  return await startPeer({
    name: 'node:http + undici, leanest',
    command: process.execPath,
    args: [...script('leanest-proxy.ts'), String(port), upstream.url],
    port,
    core: measuredCore,
  })
}

export type Found = { readonly peer: Peer } | { readonly leftOut: string }

export async function startCaddy(folder: string, upstream: Peer): Promise<Found> {
  const caddy = findProgram('caddy')
  if (caddy === undefined) return { leftOut: 'Caddy is not installed' }
  const port = await findFreePort()
  const file = join(await mkdtemp(join(folder, 'caddy-')), 'Caddyfile')
  await writeFile(
    file,
    `{\n admin off\n auto_https off\n log {\n  output discard\n }\n}\nhttp://127.0.0.1:${port} {\n bind 127.0.0.1\n reverse_proxy ${upstream.url}\n}\n`,
  )
  const peer = await startPeer({
    name: 'Caddy, bare',
    command: caddy,
    args: ['run', '--config', file, '--adapter', 'caddyfile'],
    port,
    core: measuredCore,
    env: { GOMAXPROCS: '1', HOME: folder },
  })
  return { peer }
}

export async function startTraefik(folder: string, upstream: Peer): Promise<Found> {
  const traefik = findProgram('traefik')
  if (traefik === undefined) return { leftOut: 'Traefik is not installed' }
  const port = await findFreePort()
  const home = await mkdtemp(join(folder, 'traefik-'))
  const routes = join(home, 'routes.yaml')
  await writeFile(
    routes,
    `http:
  routers: { all: { rule: "PathPrefix(\`/\`)", service: upstream } }
  services: { upstream: { loadBalancer: { servers: [{ url: "${upstream.url}" }] } } }
`,
  )
  const peer = await startPeer({
    name: 'Traefik, bare',
    command: traefik,
    args: [
      `--entrypoints.web.address=127.0.0.1:${port}`,
      `--providers.file.filename=${routes}`,
      '--serversTransport.maxIdleConnsPerHost=256',
      '--global.checkNewVersion=false',
      '--global.sendAnonymousUsage=false',
      '--log.level=ERROR',
    ],
    port,
    core: measuredCore,
    env: { GOMAXPROCS: '1', HOME: home },
  })
  return { peer }
}

const proxyLines = 'proxy_pass http://upstream; proxy_http_version 1.1; proxy_set_header Connection "";'

function upstreamBlock(upstream: Peer): string {
  return `upstream upstream { server ${new URL(upstream.url).host}; keepalive 256; keepalive_requests 1000000000; }`
}

export async function startNginxProxy(folder: string, upstream: Peer): Promise<Found> {
  const program = findProgram('nginx')
  if (program === undefined) return { leftOut: 'nginx is not installed' }
  const port = await findFreePort()
  const peer = await startNginx(folder, {
    name: 'nginx, bare',
    program,
    port,
    core: measuredCore,
    http: `${upstreamBlock(upstream)} server { listen 127.0.0.1:${port}; location / { ${proxyLines} } }`,
  })
  return { peer }
}

const luaModules = ['ndk_http_module.so', 'ngx_http_lua_module.so']

export async function startNginxLua(folder: string, upstream: Peer, redisUrl: string): Promise<Found> {
  const program = findProgram('nginx')
  const modules = ['/usr/lib/nginx/modules', '/usr/share/nginx/modules'].find((path) =>
    luaModules.every((name) => existsSync(join(path, name))),
  )
  if (program === undefined || modules === undefined) return { leftOut: 'nginx with its Lua module is not installed' }
  const port = await findFreePort()
  const redis = new URL(redisUrl)
  const main = luaModules.map((name) => `load_module ${join(modules, name)};`).join(' ')
  const lua = `
    local redis = ngx.socket.tcp()
    if not redis:connect('${redis.hostname}', ${redis.port}) then return ngx.exit(503) end
    if redis:getreusedtimes() == 0 then
      redis:send('AUTH ${redis.username} ${decodeURIComponent(redis.password)}\\r\\n')
      redis:receive()
    end
    local name = 'bench:' .. ngx.var.http_authorization
    redis:send('*2\\r\\n$3\\r\\nGET\\r\\n$' .. #name .. '\\r\\n' .. name .. '\\r\\n')
    local length = tonumber(string.sub(redis:receive() or '$-1', 2))
    if length < 0 then return ngx.exit(401) end
    redis:receive(length + 2)
    redis:setkeepalive(60000, 256)`
  const peer = await startNginx(folder, {
    name: 'nginx + Lua, a Redis GET each request',
    program,
    port,
    core: measuredCore,
    main,
    http: `${upstreamBlock(upstream)} server { listen 127.0.0.1:${port}; location / { access_by_lua_block { ${lua} } ${proxyLines} } }`,
  })
  return { peer }
}

async function startNginx(
  folder: string,
  options: {
    readonly name: string
    readonly program: string
    readonly port: number
    readonly core: number
    readonly http: string
    readonly main?: string
  },
): Promise<Peer> {
  const { name, program, port, core, http, main = '' } = options
  const home = await mkdtemp(join(folder, 'nginx-'))
  const file = join(home, 'nginx.conf')
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((kind) => `${kind}_temp_path ${join(home, kind)};`)
    .join(' ')
  await writeFile(
    file,
    `${main} daemon off; master_process off; pid ${join(home, 'pid')}; error_log ${join(home, 'error.log')} crit;
    events { worker_connections 4096; }
    http { access_log off; ${temporary} keepalive_requests 1000000000; keepalive_timeout 1h; ${http} }`,
  )
  return await startPeer({ name, command: program, args: ['-c', file, '-p', home], port, core })
}
