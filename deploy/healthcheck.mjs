// Whether the process of this container is ready, by its own word: exit code 0 or 1. The image has no other client.
const port = process.env.POSTERN_ADMIN_PORT ?? process.env.POSTERN_PORT
try {
  const answer = await fetch(`http://127.0.0.1:${port}/internal/health/ready`, { signal: AbortSignal.timeout(8000) })
  process.exitCode = answer.ok ? 0 : 1
} catch {
  process.exitCode = 1
}
