/**
 * @promise Data: The content of an upload matches its name and media type.
 */

import { describe, expect, test } from 'vitest'
import { judgeBytes, judgeDeclared } from './file-kind.ts'

const hex = (digits: string, length = 200) => Buffer.concat([Buffer.from(digits, 'hex'), Buffer.alloc(length)])
const utf16 = (text: string) => Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(text, 'utf16le')])

/** A recording: its first line, and bytes that are no text. */
const audio = (magic: string) =>
  Buffer.concat([Buffer.from(magic), Buffer.from([0x3c, 0x91, 0x17, 0x16, 0xbe]), Buffer.alloc(64)])

describe('the first bytes of an upload', () => {
  test.each([
    ['an ELF program', hex('7f454c4602010100')],
    ['a Windows program', hex('4d5a90000300000004000000ffff0000')],
    ['a Mach-O program', hex('cffaedfe0700000103000000')],
    ['a Java class', hex('cafebabe00000041')],
    ['WebAssembly', hex('0061736d01000000')],
    ['a Windows shortcut', hex('4c0000000114020000000000c000000000000046')],
    ['a shell script', Buffer.from('#!/bin/sh\nrm -rf /\n')],
    ['a script that calls itself AMR', Buffer.from('#!AMR\nrm -rf /\n')],
    ['a script for an interpreter of a name like AMR', Buffer.concat([Buffer.from('#!AMRsh\n'), Buffer.alloc(9)])],
    ['a script with binary data', Buffer.concat([Buffer.from('#! /bin/sh\n'), Buffer.alloc(9)])],
    ['a script behind a byte order mark', Buffer.from('\uFEFF#!/usr/bin/env python3\n')],
    ['HTML', Buffer.from('<!DOCTYPE html><title>x</title>')],
    ['HTML without a head', Buffer.from('\n\t<ScRipt>alert(1)</script>')],
    ['HTML behind a comment', Buffer.from('<!-- quarterly report --> <body>')],
    ['HTML behind a comment that does not end in sight', Buffer.from(`<!-- ${'x'.repeat(5000)}`).subarray(0, 4100)],
    ['HTML in UTF-16', utf16('<html><body>')],
    ['SVG', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>')],
    ['SVG with a declaration', Buffer.from('<?xml version="1.0"?>\n<!-- x -->\n<svg:svg onload="x()">')],
    ['SVG with a document type', Buffer.from('<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "x"><svg/>')],
  ])('%s is rejected', async (_name, head) => {
    expect(await judgeBytes(head)).toMatchObject({ accepted: false })
  })

  test.each([
    ['a PDF', Buffer.from('%PDF-1.7\n%âãÏÓ\n'), 'application/pdf'],
    ['a PNG', hex('89504e470d0a1a0a0000000d49484452'), 'image/png'],
    ['a CSV', Buffer.from('user,role\nann,admin\n'), null],
    ['a CSV about Mozambique', Buffer.from(`MZ,Maputo\n${'MZ,Beira\n'.repeat(50)}`), null],
    ['an e-mail', Buffer.from('From: a@example.org\r\nSubject: <html>\r\n\r\n'), null],
    ['XML that is data', Buffer.from('<?xml version="1.0"?><ledger><html>no</html></ledger>'), 'application/xml'],
    ['XML with a table', Buffer.from('<?xml version="1.0"?><table><row/></table>'), 'application/xml'],
    ['a recording in AMR', audio('#!AMR\n'), 'audio/amr'],
    ['a recording in AMR-WB', audio('#!AMR-WB\n'), 'audio/amr'],
    ['a recording in AMR of several channels', audio('#!AMR_MC1.0\n'), 'audio/amr'],
    ['a recording in EVRC', audio('#!EVRC-B\n'), null],
    ['a recording in SMV', audio('#!SMV\n'), null],
    ['a recording in iLBC', audio('#!iLBC30\n'), null],
    ['a recording in EVS', audio('#!EVS_MC1.0\n'), null],
    ['a recording in SILK', audio('#!SILK_V3'), null],
    ['a dump of RTP', audio('#!rtpplay1.0 192.0.2.1/5004\n'), null],
    ['one byte', Buffer.from('x'), null],
    ['text with an arrow', Buffer.from('<-- see below'), null],
    ['a container that is cut off', hex('504b0304140000000800', 30), 'application/zip'],
  ])('%s is accepted', async (_name, head, detected) => {
    expect(await judgeBytes(head)).toEqual({ accepted: true, detected })
  })
})

describe('the declared type', () => {
  test.each([
    ['report.pdf', 'text/html'],
    ['report.pdf', 'Image/SVG+XML; charset=utf-8'],
    ['report.pdf', 'application/x-msdownload'],
    ['report.pdf.exe', 'application/pdf'],
    ['clean.py', 'text/plain'],
    ['index.PHP', 'text/plain'],
    ['page.mht', 'text/plain'],
    ['start.desktop', 'text/plain'],
    ['setup.msix', 'text/plain'],
    ['setup.appxbundle', 'text/plain'],
    ['setup.application', 'text/plain'],
    ['tool.appref-ms', 'text/plain'],
    ['view.ps1xml', 'text/plain'],
    ['server.cjs', 'text/plain'],
    ['Settings.SettingContent-ms', 'text/plain'],
    ['help.chm', 'text/plain'],
    ['accounts.library-ms', 'text/plain'],
    ['query.iqy', 'text/plain'],
    ['table.slk', 'text/plain'],
    ['addin.wll', 'text/plain'],
    ['fix.diagcab', 'text/plain'],
    ['update.msu', 'text/plain'],
    ['colours.theme', 'text/plain'],
    ['control.ocx', 'text/plain'],
    ['server.rdp', 'text/plain'],
    ['page.aspx', 'text/plain'],
    ['module.pyc', 'text/plain'],
    ['banner.swf', 'text/plain'],
    ['extension.crx', 'text/plain'],
    ['disk.iso', 'text/plain'],
    ['disk.img', 'text/plain'],
    ['disk.vhdx', 'text/plain'],
    ['REPORT.EXE', 'application/pdf'],
    ['report.exe. .', 'application/pdf'],
    ['report.html', 'text/plain'],
  ])('%s as %s is rejected', (fileName, contentType) => {
    expect(judgeDeclared(fileName, contentType).accepted).toBe(false)
  })

  test.each([
    ['report.pdf', 'application/pdf'],
    ['executive summary.docx', 'application/octet-stream'],
    ['com', 'text/plain'],
    ['iso', 'text/plain'],
    ['.gitignore', 'text/plain'],
    ['policy.iso27001.pdf', 'application/pdf'],
    ['mail.eml', 'message/rfc822'],
    ['capture.pcap', 'application/octet-stream'],
    ['dump.sql', 'text/plain'],
    ['books.xlsx', 'application/octet-stream'],
    ['export.xml', 'application/xml'],
    ['archive.zip', 'application/zip'],
    ['application.pdf', 'application/pdf'],
    ['Übersicht 2026.csv', 'text/csv; charset=utf-8'],
  ])('%s as %s is accepted', (fileName, contentType) => {
    expect(judgeDeclared(fileName, contentType).accepted).toBe(true)
  })
})

describe('a list of accepted media types', () => {
  const allowed = ['text/*', 'application/pdf']
  const pdf = Buffer.from('%PDF-1.7')
  const png = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex')

  test.each(['image/png', 'application/octet-stream', 'textual/csv', 'application/pdfx'])('rejects %s', (type) => {
    expect(judgeDeclared('a', type, allowed).accepted).toBe(false)
    expect(judgeDeclared('a', type).accepted).toBe(true)
  })

  test.each(['text/csv', 'Text/CSV; charset=utf-8', 'application/pdf'])('accepts %s', (type) => {
    expect(judgeDeclared('a', type, allowed).accepted).toBe(true)
  })

  test('also applies to the type that the bytes show, if they show one', async () => {
    expect(await judgeBytes(png, allowed)).toEqual({
      accepted: false,
      reason: 'The first bytes are those of image/png, which this installation does not accept.',
    })
    expect((await judgeBytes(png)).accepted).toBe(true)
    expect((await judgeBytes(pdf, allowed)).accepted).toBe(true)
    expect((await judgeBytes(Buffer.from('a,b'), allowed)).accepted).toBe(true)
  })

  test('rejects programs and web pages, whatever it contains', async () => {
    expect(judgeDeclared('a.html', 'text/html', ['text/*']).accepted).toBe(false)
    expect((await judgeBytes(Buffer.from('<html>'), ['text/*'])).accepted).toBe(false)
  })
})
