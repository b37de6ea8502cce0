// The table of claims can be narrowed down by document, by verdict and by a word; without this script it is whole.
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

  addEventListener('DOMContentLoaded', () => {
    const box = document.querySelector('.claims')
    if (!box) return
    const rows = [...box.querySelectorAll('tbody tr')]
    const verdicts = Object.fromEntries(
      rows.map(row => [row.dataset.verdict, row.querySelector('.verdict').textContent]))
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
      select('Verdict', verdicts), labelled('Word', word), all, found)
    const [by, verdict] = form.querySelectorAll('select')
    const narrow = () => {
      const wanted = word.value.trim().toLowerCase()
      for (const row of rows) {
        row.hidden = (by.value && !row.dataset.by.split(' ').includes(by.value)) ||
          (verdict.value && row.dataset.verdict !== verdict.value) ||
          !row.textContent.toLowerCase().includes(wanted)
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
  })
})()
