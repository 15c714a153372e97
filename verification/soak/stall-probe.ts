// Sleeps, and prints each late wake-up and stolen time as a line of JSON with monotonic times.
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
