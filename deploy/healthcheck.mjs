// Whether the process of this container is ready, by its own word: exit code 0 or 1. The image has no other client.
// By hand over a socket: it runs every ten seconds in each container, and to load fetch or node:http takes twice the processor.
import { connect } from 'node:net'

const port = Number(process.env.POSTERN_ADMIN_PORT ?? process.env.POSTERN_PORT)
const socket = connect(port, '127.0.0.1').setEncoding('latin1').setTimeout(8000)
let answer = ''
// The default, until the answer is there.
process.exitCode = 1
// Written and not ended: Node's server drops the answer that it still owes to who ends the sending half.
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
