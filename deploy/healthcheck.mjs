// A plain socket is cheaper to load than fetch.
import { connect } from 'node:net'

const port = Number(process.env.POSTERN_ADMIN_PORT ?? process.env.POSTERN_PORT)
const socket = connect(port, '127.0.0.1').setEncoding('latin1').setTimeout(8000)
let answer = ''
// Until the response arrives.
process.exitCode = 1
// Node's server drops the response if the client half-closes.
socket.on('connect', () => socket.write('GET /internal/health/ready HTTP/1.0\r\nHost: localhost\r\n\r\n'))
socket.on('data', (text) => {
  answer += text
  const status = /^HTTP\/1\.[01] (\d{3}) /.exec(answer)?.[1]
  if (status === undefined && answer.length < 64) return
  process.exitCode = status?.startsWith('2') ? 0 : 1
  socket.destroy()
})
socket.on('timeout', () => socket.destroy())
socket.on('error', () => undefined)
