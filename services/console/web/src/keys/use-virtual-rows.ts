import { type RefObject, useEffect, useState } from 'react'

export interface VirtualRows {
  readonly start: number
  readonly end: number
  /** Width of the list in pixels; 0 until measured. */
  readonly width: number
}

const spareRows = 8

export function useVirtualRows(list: RefObject<HTMLElement | null>, count: number, rowHeight: number): VirtualRows {
  const [rows, setRows] = useState<VirtualRows>({ start: 0, end: 30, width: 0 })
  useEffect(() => {
    const element = list.current
    if (element === null) return
    const measure = () => {
      const { top, width } = element.getBoundingClientRect()
      const start = Math.max(0, Math.floor(-top / rowHeight) - spareRows)
      const end = Math.max(start, Math.ceil((innerHeight - top) / rowHeight) + spareRows)
      setRows((old) => (old.start === start && old.end === end && old.width === width ? old : { start, end, width }))
    }
    const observer = new ResizeObserver(measure)
    observer.observe(element)
    addEventListener('scroll', measure, { passive: true })
    addEventListener('resize', measure)
    measure()
    return () => {
      observer.disconnect()
      removeEventListener('scroll', measure)
      removeEventListener('resize', measure)
    }
  }, [list, rowHeight, count])
  return { start: Math.min(rows.start, count), end: Math.min(rows.end, count), width: rows.width }
}
