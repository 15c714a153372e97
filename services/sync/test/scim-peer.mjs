// A SCIM service provider with `COUNT` users, for callers with `TOKEN`. Prints its port, and ends with its input.
import express from 'express'
import SCIMMY from 'scimmy'
import { SCIMMYRouters } from 'scimmy-routers'

const users = Array.from({ length: Number(process.env.COUNT) }, (_, number) => ({
  id: `user-${number}`,
  userName: `person${number}@example.test`,
  displayName: `Person ${number}`,
  active: number % 2 === 0,
  emails: [{ value: `person${number}@example.test`, primary: true }],
}))

SCIMMY.Resources.declare(SCIMMY.Resources.User)
  .ingress(() => undefined)
  .degress(
    ({ id }) =>
      void users.splice(
        users.findIndex((user) => user.id === id),
        1,
      ),
  )
  .egress(({ id, filter }) =>
    id === undefined ? (filter?.match(users) ?? users) : users.find((user) => user.id === id),
  )

const app = express()
// The router stores numbers in the query, which Express 5 parses again on each access.
app.use((request, _, next) => {
  Object.defineProperty(request, 'query', { value: request.query })
  next()
})
app.use(
  '/scim',
  new SCIMMYRouters({
    type: 'bearer',
    handler: (request) => {
      if (request.header('authorization') !== `Bearer ${process.env.TOKEN}`) throw new Error('not authorized')
      return 'postern'
    },
  }),
)
const server = app.listen(0, '127.0.0.1', () => process.stdout.write(`${server.address().port}\n`))
process.stdin.resume().once('end', () => process.exit())
