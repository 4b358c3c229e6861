"""Workbooks as their programs write them, with nothing but cells."""

import io
import zipfile
from xml.sax.saxutils import escape

_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OPEN = "urn:oasis:names:tc:opendocument:xmlns"


def _zipped(parts):
    """The bytes of an archive of files, by their names."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def xlsx(*sheets):
    """The bytes of an .xlsx; each sheet is a list of rows of texts and numbers."""

    def cell(value):
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>' if value else "<c/>"
        return f"<c><v>{value}</v></c>"

    def relation(number, kind, target):
        return f'<Relationship Id="r{number}" Type="{_OFFICE}/{kind}" Target="{target}"/>'

    def relations(*written):
        return f'<Relationships xmlns="{_PACKAGE}/relationships">{"".join(written)}</Relationships>'

    numbers = range(1, len(sheets) + 1)
    names = "".join(f'<sheet name="Sheet {number}" sheetId="{number}" r:id="r{number}"/>' for number in numbers)
    of_sheets = [relation(number, "worksheet", f"{number}.xml") for number in numbers]
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"/>',
        "_rels/.rels": relations(relation(0, "officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>{names}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": relations(*of_sheets),
    }
    for number, rows in zip(numbers, sheets, strict=True):
        written = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
        parts[f"xl/{number}.xml"] = f'<worksheet xmlns="{_MAIN}"><sheetData>{written}</sheetData></worksheet>'
    return _zipped(parts)


def ods(rows):
    """The bytes of an .ods with one sheet, a list of rows of texts."""

    def cell(text):
        lines = "".join(f"<text:p>{escape(line)}</text:p>" for line in text.split("\n"))
        return f'<table:table-cell office:value-type="string">{lines}</table:table-cell>'

    written = "".join(f"<table:table-row>{''.join(map(cell, row))}</table:table-row>" for row in rows)
    names = " ".join(f'xmlns:{name}="{_OPEN}:{name}:1.0"' for name in ("office", "table", "text"))
    body = f'<office:spreadsheet><table:table table:name="Sheet 1">{written}</table:table></office:spreadsheet>'
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    entry = f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{kind}"/>'
    manifest = f'<manifest:manifest xmlns:manifest="{_OPEN}:manifest:1.0">{entry}</manifest:manifest>'
    content = f"<office:document-content {names}><office:body>{body}</office:body></office:document-content>"
    return _zipped({"mimetype": kind, "META-INF/manifest.xml": manifest, "content.xml": content})
