import { maxBulkKeys, type ApiKey } from '@postern/contracts'
import { Button } from '../ui/button.tsx'
import { Tick } from '../ui/tick.tsx'
import { canChange } from './select-keys.ts'

interface Props {
  readonly shown: readonly ApiKey[]
  readonly selected: ReadonlySet<string>
  readonly onSelect: (selected: ReadonlySet<string>) => void
  readonly onChange: (ids: readonly string[]) => void
}

/** Selects the keys that are shown, to change them together. Hidden keys never change. */
export function SelectionBar({ shown, selected, onSelect, onChange }: Props) {
  const changeable = shown.filter(canChange)
  const ids = changeable.flatMap(({ id }) => (selected.has(id) ? [id] : []))
  return (
    <div className="selection-bar" role="group" aria-label="Selection">
      <Tick
        label={
          changeable.length === shown.length
            ? `Select all ${shown.length} shown`
            : `Select all ${changeable.length} that are not revoked`
        }
        isOn={changeable.length > 0 && ids.length === changeable.length}
        onChange={(isOn) => onSelect(new Set(isOn ? changeable.map(({ id }) => id) : []))}
      />
      {ids.length === 0 ? undefined : ids.length > maxBulkKeys ? (
        <span className="help">At most {maxBulkKeys} keys can be changed at once. Narrow the filter.</span>
      ) : (
        <Button size="small" onPress={() => onChange(ids)}>
          Change {ids.length} selected…
        </Button>
      )}
    </div>
  )
}
