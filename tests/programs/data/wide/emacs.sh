# emacs: a buffer edited by Lisp, hash tables, indentation, in batch mode.
cat > work.el <<'L'
(let ((table (make-hash-table :test 'equal)))
  (dotimes (i 60000) (puthash (format "k%d" (mod (* i 7919) 1009)) (cons i (gethash (format "k%d" (mod (* i 7919) 1009)) table)) table))
  (princ (format "keys %d %d\n" (hash-table-count table) (length (gethash "k17" table)))))
(with-temp-buffer
  (dotimes (i 20000) (insert (format "line %d of text\n" (mod (* i 31) 19997))))
  (sort-numeric-fields 2 (point-min) (point-max))
  (goto-char (point-min))
  (while (re-search-forward "\\([0-9]\\)7 " nil t) (replace-match "<\\1> "))
  (princ (format "text %d %s\n" (buffer-size) (secure-hash 'sha256 (current-buffer)))))
(with-temp-buffer
  (dotimes (i 300) (insert "(defun f" (number-to-string i) " (x)\n(if (> x 1)\n(let ((y x))\n(* y 2))\nx))\n"))
  (emacs-lisp-mode)
  (indent-region (point-min) (point-max))
  (princ (format "indented %s\n" (md5 (buffer-string)))))
(garbage-collect)
L
emacs -Q --batch -l work.el 2>/dev/null
