// Sleeps, looks how late it was woken and what the host took meanwhile, and prints each stall as a line of JSON, with times of
// the machine's monotonic clock. Ends when its standard input does.
import { readTimes } from '../containers/machine.ts'
import { findStalls, machineClock, probeEveryMs } from './stalls.ts'

const look = findStalls()

function lookNow(): void {
  const stall = look({ at: machineClock(), ...readTimes() })
  if (stall !== undefined) process.stdout.write(`${JSON.stringify(stall)}\n`)
}

lookNow()
setInterval(lookNow, probeEveryMs)
process.stdout.write('looking\n')
process.stdin.on('end', () => {
  process.exit(0)
})
process.stdin.resume()
