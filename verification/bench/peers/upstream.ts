import { createServer } from 'node:http'

const [port, body] = process.argv.slice(2)
if (port === undefined || body === undefined) throw new Error('usage: upstream.ts PORT BODY')

const answer = Buffer.from(body)
const headers = ['content-type', 'application/json', 'content-length', String(answer.length)]
const server = createServer((_request, response) => {
  response.writeHead(200, headers)
  response.end(answer)
})
server.keepAliveTimeout = 3_600_000
server.listen(Number(port), '127.0.0.1')
