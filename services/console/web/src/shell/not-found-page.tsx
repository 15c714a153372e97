import { Link } from '../router.tsx'
import { Empty, Page } from '../ui/page.tsx'

export function NotFoundPage() {
  return (
    <Page title="Nothing here">
      <Empty
        icon="search"
        title="There is no page at this address"
        action={
          <Link className="button button-plain button-usual" to="/settings/api-keys">
            Go to API keys
          </Link>
        }
      >
        The link may be old, or a letter is missing.
      </Empty>
    </Page>
  )
}
