const paths = {
  key: 'M12.5 11.5a4.5 4.5 0 1 0-4-4L3 13v4h4v-2h2v-2h1.5l2-1.5ZM13.5 6.5h.01',
  people:
    'M7.5 9a2.75 2.75 0 1 0 0-5.5 2.75 2.75 0 0 0 0 5.5ZM2.5 16.2c.4-2.7 2.4-4.4 5-4.4s4.6 1.7 5 4.4M13 4a2.6 2.6 0 0 1 0 5M14.6 12.1c1.6.6 2.6 2 2.9 4.1',
  shield: 'M10 2.5 16 4.7v4.6c0 3.7-2.4 6.6-6 8.2-3.6-1.6-6-4.5-6-8.2V4.7L10 2.5Zm-2.6 7.6 1.9 1.9 3.5-3.7',
  receipt: 'M5 2.8h10v14.6l-2.5-1.7L10 17.4l-2.5-1.7L5 17.4V2.8ZM7.8 7h4.4M7.8 10.4h4.4',
  plus: 'M10 4v12M4 10h12',
  search: 'M9 14.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11ZM13 13l4 4',
  copy: 'M7.5 7.5h8v9h-8zM12.5 7.5v-4h-8v9h3',
  check: 'm4 10.5 4 4 8-9',
  close: 'm5 5 10 10M15 5 5 15',
  warning: 'M10 3.2 17.6 16.5H2.4L10 3.2ZM10 8v4M10 14.3h.01',
  info: 'M10 17.5a7.5 7.5 0 1 0 0-15 7.5 7.5 0 0 0 0 15ZM10 9.2v4.5M10 6.5h.01',
  chevron: 'm6 8 4 4 4-4',
  back: 'M12 5 7 10l5 5',
  up: 'm6 12 4-4 4 4',
  dots: 'M5 10h.01M10 10h.01M15 10h.01',
  rotate: 'M16 10a6 6 0 0 1-10.6 3.8M4 10a6 6 0 0 1 10.6-3.8M14.8 3v3.4h-3.4M5.2 17v-3.4h3.4',
  ban: 'M10 17.5a7.5 7.5 0 1 0 0-15 7.5 7.5 0 0 0 0 15ZM4.8 4.8l10.4 10.4',
  sun: 'M10 13.2a3.2 3.2 0 1 0 0-6.4 3.2 3.2 0 0 0 0 6.4ZM10 2v1.8M10 16.2V18M2 10h1.8M16.2 10H18M4.3 4.3l1.3 1.3M14.4 14.4l1.3 1.3M15.7 4.3l-1.3 1.3M5.6 14.4l-1.3 1.3',
  moon: 'M16.5 12.1A7 7 0 0 1 7.9 3.5a7 7 0 1 0 8.6 8.6Z',
  system: 'M3 4.5h14v9H3zM7.5 17h5M10 13.5V17',
  menu: 'M3 5.5h14M3 10h14M3 14.5h14',
  out: 'M8 3.5H4v13h4M12.5 6.5 16 10l-3.5 3.5M16 10H8',
  clock: 'M10 17.5a7.5 7.5 0 1 0 0-15 7.5 7.5 0 0 0 0 15ZM10 5.8V10l2.8 1.8',
  eye: 'M2 10s2.9-5 8-5 8 5 8 5-2.9 5-8 5-8-5-8-5ZM10 12.3a2.3 2.3 0 1 0 0-4.6 2.3 2.3 0 0 0 0 4.6Z',
  pen: 'm4 16 .8-3.4L13.5 4 16 6.5l-8.7 8.7L4 16Z',
  upload: 'M10 13V4M6.5 7.3 10 3.8l3.5 3.5M3.5 13v3.5h13V13',
  globe:
    'M10 17.5a7.5 7.5 0 1 0 0-15 7.5 7.5 0 0 0 0 15ZM2.7 10h14.6M10 2.5c4.3 4.3 4.3 10.7 0 15-4.3-4.3-4.3-10.7 0-15Z',
  sync: 'M4 7h10.5M11.5 4l3 3-3 3M16 13H5.5M8.5 10l-3 3 3 3',
  database:
    'M10 7.6c3.6 0 6.2-1.1 6.2-2.5S13.6 2.6 10 2.6 3.8 3.7 3.8 5.1 6.4 7.6 10 7.6ZM3.8 5.1v9.8c0 1.4 2.6 2.5 6.2 2.5s6.2-1.1 6.2-2.5V5.1M3.8 10c0 1.4 2.6 2.5 6.2 2.5s6.2-1.1 6.2-2.5',
  directory: 'M7.5 3h5v3.6h-5zM2.5 13.4h5V17h-5zM12.5 13.4h5V17h-5zM10 6.6V10M5 13.4V10h10v3.4',
  pause: 'M7.5 4.5v11M12.5 4.5v11',
  play: 'M6.5 4v12l9-6-9-6Z',
  trash: 'M3.5 5.5h13M8 5.5V3.5h4v2M5.5 5.5l.7 11.5h7.6l.7-11.5M8.5 8.5v5.5M11.5 8.5v5.5',
  file: 'M5 2.8h6.5L15 6.3v10.9H5zM11.3 2.8v3.7H15',
} as const

export type IconName = keyof typeof paths

/** A drawing that says nothing by itself: the words stand beside it. */
export function Icon({ name, size = 18 }: { readonly name: IconName; readonly size?: number }) {
  return (
    <svg
      className="icon"
      width={size}
      height={size}
      viewBox="0 0 20 20"
      strokeWidth={1.6}
      aria-hidden="true"
      focusable="false"
    >
      <path d={paths[name]} {...(name === 'dots' ? { strokeWidth: 2.6 } : {})} />
    </svg>
  )
}
