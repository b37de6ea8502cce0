// The table of claims can be narrowed down by document, by verdict and by words; without this script it is whole.
// A cell that a link leads to is unfolded, on every page.
(() => {
  const unfold = () => {
    const cell = document.getElementById(decodeURIComponent(location.hash.slice(1)))
    if (!cell?.matches('.cell')) return
    cell.querySelectorAll('details').forEach(part => { part.open = true })
    cell.scrollIntoView()
  }
  addEventListener('hashchange', unfold)
  addEventListener('DOMContentLoaded', unfold)

  const select = (name, values) => {
    const options = Object.entries(values).map(([value, text]) => new Option(text, value))
    const field = document.createElement('select')
    field.append(new Option('all', ''), ...options)
    return labelled(name, field)
  }
  const labelled = (name, field) => {
    const label = document.createElement('label')
    label.append(`${name} `, field)
    return label
  }

  // Small letters, and whatever stands between two words as one space: each word has one before it.
  const plain = text => ' ' + text.toLowerCase().replace(/([^\p{L}\p{N}_.^]|\.(?!\d))+/gu, ' ').trim()
  // What a row says; its verdict has a field of its own.
  const said = row => plain([...row.cells].filter(cell => cell.dataset.label !== 'verdict')
    .map(cell => cell.textContent).concat(row.dataset.words).join(' '))

  addEventListener('DOMContentLoaded', () => {
    const box = document.querySelector('.claims')
    if (!box) return
    const rows = [...box.querySelectorAll('tbody tr')]
    const texts = new Map(rows.map(row => [row, said(row)]))
    const documents = [...new Set(rows.flatMap(row => row.dataset.by.split(' ')))].sort()
    const form = document.createElement('form')
    const word = document.createElement('input')
    const found = document.createElement('output')
    const all = document.createElement('button')
    found.setAttribute('role', 'status')
    all.type = 'reset'
    all.textContent = 'Show all'
    word.type = 'search'
    form.className = 'claims-filter'
    form.append(
      select('Document', Object.fromEntries(documents.map(name => [name, name]))),
      select('Verdict', JSON.parse(box.dataset.verdicts)), labelled('Words', word), all, found)
    const [by, verdict] = form.querySelectorAll('select')
    // What only another document's code is wrong about is true of the document that was chosen.
    const judged = ({verdict, code}) => by.value && code && code !== by.value ? 'true' : verdict
    const narrow = () => {
      const wanted = plain(word.value).split(' ').slice(1)
      for (const row of rows) {
        row.hidden = (by.value && !row.dataset.by.split(' ').includes(by.value)) ||
          (verdict.value && judged(row.dataset) !== verdict.value) ||
          !wanted.every(start => texts.get(row).includes(` ${start}`))
      }
      const left = rows.filter(row => !row.hidden).length
      box.hidden = !left
      found.value = left ? `${left} of ${rows.length} claims` : 'Nothing found: no claim fits all three fields.'
    }
    form.addEventListener('input', narrow)
    form.addEventListener('reset', () => setTimeout(narrow))  // the fields are empty only after this event
    form.addEventListener('submit', event => event.preventDefault())
    box.before(form)
    narrow()
    addEventListener('pageshow', narrow)  // whoever comes back finds the fields filled in, after all other events
  })
})()
